#include "model/own_op.h"

#include <cstdint>
#include <cstring>

namespace anello::model {
namespace {

// x -> a x + b modulo 2^32: composition is associative and does not commute. Of the bytes behind, those of the left
// stay.
struct Affine {
  std::uint32_t a, b;
};

void combine_one(OwnOp op, std::size_t bytes, unsigned char* into, const unsigned char* left,
                 const unsigned char* right) {
  Affine l, r;
  std::memcpy(&l, left, sizeof l);
  std::memcpy(&r, right, sizeof r);
  const bool ordered = op == OwnOp::ordered;
  const Affine made = ordered ? Affine{l.a * r.a, l.a * r.b + l.b} : Affine{l.a + r.a, l.b + r.b};
  for (std::size_t k = sizeof made; k < bytes; ++k)
    into[k] = ordered ? left[k] : static_cast<unsigned char>(left[k] ^ right[k]);
  std::memcpy(into, &made, sizeof made);
}

template <OwnOp op>
void function(void*, void* into, const void* left, const void* right, std::size_t count, anello_dtype_t dtype) {
  combine(op, anello_dtype_size(dtype), static_cast<unsigned char*>(into), static_cast<const unsigned char*>(left),
          static_cast<const unsigned char*>(right), count);
}

anello_op_t made(const char* name, anello_op_function_t of, int commutes) {
  anello_op_config_t config = ANELLO_OP_CONFIG_INITIALIZER;
  config.name = name;
  config.function = of;
  config.commutes = commutes;
  anello_op_t op = ANELLO_SUM;
  // Where it fails the first call of it says so.
  return anello_op_create(&config, &op) == ANELLO_OK ? op : static_cast<anello_op_t>(-1);
}

}  // namespace

anello_op_t handle_of(OwnOp op) {
  static const anello_op_t ordered = made("model ordered", function<OwnOp::ordered>, 0);
  static const anello_op_t commuting = made("model commuting", function<OwnOp::commuting>, 1);
  return op == OwnOp::ordered ? ordered : commuting;
}

void combine(OwnOp op, std::size_t bytes, unsigned char* into, const unsigned char* left, const unsigned char* right,
             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, into += bytes, left += bytes, right += bytes)
    combine_one(op, bytes, into, left, right);
}

}  // namespace anello::model
