#pragma once
// A library of rdma-core's that is loaded at run time and stays loaded. All throw Error, which says what to install.
#include "base/error.h"
#include "base/text.h"

#include <type_traits>

#include <dlfcn.h>

namespace anello::transport {

class SharedObject {
 public:
  // name: "libibverbs"; failure: what its absence means; package: "Install ..".
  SharedObject(const char* name, const char* failure, const char* package)
      : name_(name), handle_(::dlopen(text(name, ".so.1").c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw Error(ANELLO_ERR_SYSTEM, text(failure, ": ", ::dlerror(), ". ", package));
  }

  template <class Function>
  void need(Function& function, const char* symbol) const {
    if (!find(function, symbol)) throw Error(ANELLO_ERR_SYSTEM, text(name_, " has no ", symbol, ": update rdma-core"));
  }
  // False, and null: it is older than that function.
  template <class Function>
  bool find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, symbol));
    return function != nullptr;
  }

 private:
  const char* const name_;
  void* const handle_;
};

}  // namespace anello::transport
