// Creates and frees the caller's own operations.
#include "api/tables.h"
#include "base/custom_op.h"
#include "base/dtype.h"
#include "base/text.h"

#include <cstring>

using namespace anello;
using namespace anello::api;

namespace {

constexpr std::size_t kMaxName = 63;

template <class Body>
anello_result_t guarded(Body&& body) noexcept {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    body();
    return ANELLO_OK;
  });
}

[[noreturn]] void refuse(const std::string& why) { throw Error(ANELLO_ERR_ARGUMENT, why); }

}  // namespace

extern "C" {

anello_result_t anello_op_create(const anello_op_config_t* config, anello_op_t* op) {
  return guarded([&] {
    if (config == nullptr || config->size != sizeof *config) {
      refuse("anello_op_create: config is NULL or its size is not sizeof(anello_op_config_t)");
    }
    if (op == nullptr) refuse("anello_op_create: op is NULL");
    if (config->function == nullptr) refuse("anello_op_create: function is NULL");
    const std::size_t length = config->name == nullptr ? 0 : strnlen(config->name, kMaxName + 1);
    if (length == 0 || length > kMaxName) refuse(text("anello_op_create: name must have 1 to ", kMaxName, " bytes"));
    CustomOp custom;
    custom.name.assign(config->name, length);
    custom.function = config->function;
    custom.context = config->context;
    custom.commutes = config->commutes != 0;
    custom.element_bytes = config->element_bytes;
    *op = add_custom_op(std::move(custom));
  });
}

anello_result_t anello_op_create_premul_sum(const void* scalar, anello_dtype_t dtype, anello_op_t* op) {
  return guarded([&] {
    if (scalar == nullptr) refuse("anello_op_create_premul_sum: scalar is NULL");
    if (op == nullptr) refuse("anello_op_create_premul_sum: op is NULL");
    if ((class_of(dtype) & (kInteger | kFloat | kComplex)) == 0) {
      throw Error(ANELLO_ERR_TYPE, text("anello_op_create_premul_sum: a scalar cannot be ", dtype_name(dtype),
                                        "; it is an integer, a float or a complex number"));
    }
    CustomOp custom;
    custom.name = "premultiplied sum";
    custom.scalar_dtype = dtype;
    std::memcpy(custom.scalar.data(), scalar, dtype_bytes(dtype));
    *op = add_custom_op(std::move(custom));
  });
}

anello_result_t anello_op_free(anello_op_t op) {
  return guarded([&] {
    if (!is_custom_op(op)) refuse(text("anello_op_free: ", op_name(op), " was not made by anello_op_create"));
    if (!remove_custom_op(op))
      throw Error(ANELLO_ERR_STATE, "anello_op_free: the operation was freed before or never existed");
  });
}

}  // extern "C"
