#include "kernels/cuda/image.h"

#include "base/text.h"

#include <anello/version.h>

#include <dlfcn.h>

namespace anello::kernels::cuda {
namespace {

constexpr const char* kLibrary = "libanello_cuda.so.0";

// The folder of the library or program that holds this function, with a slash at the end.
std::string own_folder() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &own) == 0 || own.dli_fname == nullptr) return "";
  const std::string path = own.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

const ImageTable& find_images() {
  const std::string beside = own_folder() + kLibrary;
  try {
    return load_images(beside);
  } catch (const Error& missing) {
    if (missing.code() == ANELLO_ERR_VERSION) throw;
    try {
      return load_images(kLibrary);
    } catch (const Error& last) {
      throw Error(last.code(),
                  text(last.text(), " (looked for as ", beside,
                       " too). Build with -Dcuda=enabled, where nvcc is, and install it beside libanello.so."));
    }
  }
}

}  // namespace

const ImageTable& load_images(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open: kernels outlive their caller
  if (library == nullptr) throw Error(ANELLO_ERR_SYSTEM, text("no CUDA kernels: ", dlerror()));
  const auto* const table = static_cast<const ImageTable*>(dlsym(library, "anello_cuda_images"));
  if (table == nullptr) throw Error(ANELLO_ERR_SYSTEM, text("no CUDA kernels: ", path, " holds none"));
  if (table->version != kImageVersion || table->anello != ANELLO_VERSION_CODE) {
    throw Error(ANELLO_ERR_VERSION, text(path, " belongs to another build of Anello (", table->anello, ", kernels ",
                                         table->version, "; this one is ", ANELLO_VERSION_CODE, ", kernels ",
                                         kImageVersion, "). Install both from one build."));
  }
  return *table;
}

const ImageTable& images() {
  static const ImageTable& found = find_images();
  return found;
}

}  // namespace anello::kernels::cuda
