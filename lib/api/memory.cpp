// Memory that the ranks of a host share.
#include "api/tables.h"
#include "base/text.h"
#include "memory/region.h"

#include <anello/anello.h>

using namespace anello;
using namespace anello::api;

namespace {

anello_result_t allocate(const char* name, std::size_t bytes, const anello_mem_options_t& options, void** pointer) {
  return guard(ANELLO_COMM_NULL, [&]() -> anello_result_t {
    refuse_here();
    if (pointer == nullptr) throw Error(ANELLO_ERR_ARGUMENT, text(name, ": pointer is NULL"));
    if (bytes == 0) throw Error(ANELLO_ERR_ARGUMENT, text(name, ": bytes is 0"));
    constexpr unsigned kKnown = ANELLO_MEM_HUGE_PAGES;
    if ((options.flags & ~kKnown) != 0)
      throw Error(ANELLO_ERR_ARGUMENT, text(name, ": flags ", options.flags, " has an unknown one"));
    *pointer = memory::make_region(bytes, {(options.flags & ANELLO_MEM_HUGE_PAGES) != 0, options.numa_node});
    return ANELLO_OK;
  });
}

void refuse_part_of_window(const char* name, const void* pointer) {
  if (pointer == nullptr || !memory::is_kept_in_place(pointer)) return;
  throw Error(ANELLO_ERR_ARGUMENT, text(name, ": the memory is part of a window, which is to be freed first"));
}

}  // namespace

extern "C" {

anello_result_t anello_mem_alloc(size_t bytes, void** pointer) {
  return allocate("anello_mem_alloc", bytes, ANELLO_MEM_OPTIONS_INITIALIZER, pointer);
}

anello_result_t anello_mem_alloc_with(size_t bytes, const anello_mem_options_t* options, void** pointer) {
  if (options == nullptr || options->size != sizeof *options) {
    return failed(ANELLO_COMM_NULL,
                  Error(ANELLO_ERR_ARGUMENT,
                        "anello_mem_alloc_with: options is NULL or its size is not sizeof(anello_mem_options_t)"));
  }
  return allocate("anello_mem_alloc_with", bytes, *options, pointer);
}

anello_result_t anello_mem_free(void* pointer) {
  return guard(ANELLO_COMM_NULL, [&]() -> anello_result_t {
    refuse_here();
    refuse_part_of_window("anello_mem_free", pointer);
    if (pointer == nullptr || memory::free_region(pointer)) return ANELLO_OK;
    throw Error(ANELLO_ERR_ARGUMENT, "anello_mem_free: the pointer is not from anello_mem_alloc, or was freed before");
  });
}

anello_result_t anello_register(void* address, size_t bytes) {
  return guard(ANELLO_COMM_NULL, [&]() -> anello_result_t {
    refuse_here();
    if (address == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "anello_register: address is NULL");
    if (bytes == 0) throw Error(ANELLO_ERR_ARGUMENT, "anello_register: bytes is 0");
    memory::register_region(address, bytes);
    return ANELLO_OK;
  });
}

anello_result_t anello_deregister(void* address) {
  return guard(ANELLO_COMM_NULL, [&]() -> anello_result_t {
    refuse_here();
    refuse_part_of_window("anello_deregister", address);
    if (address != nullptr) memory::deregister_region(address);
    return ANELLO_OK;
  });
}

}  // extern "C"
