// What can be said of a call without asking anybody, in one table.
#include "support/catch.h"

#include <anello/anello.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace {

struct Row {
  const char* what;
  anello_result_t stated;
  std::function<anello_result_t(anello_comm_t)> call;
};

float a[64], b[64];
anello_request_t request;
anello_comm_t made;
int number, indices[4];
const char* name;
constexpr auto F = ANELLO_FLOAT32;
constexpr auto S = ANELLO_SUM;
const auto no_dtype = static_cast<anello_dtype_t>(99);
const std::size_t zero[] = {0}, four[] = {4}, huge[] = {SIZE_MAX - 2};
void* const in_place = const_cast<void*>(ANELLO_IN_PLACE);
const auto no_op = static_cast<anello_op_t>(-3);

anello_result_t post(anello_comm_t comm, const std::function<void(anello_call_t&)>& change) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  change(call);
  return anello_post(comm, &call, nullptr);
}

const std::vector<Row> kRows = {
    {"allreduce without sendbuf", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_allreduce(nullptr, b, 4, F, S, c); }},
    {"allreduce without recvbuf", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_allreduce(a, nullptr, 4, F, S, c); }},
    {"allreduce that overlaps", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_allreduce(a, a + 3, 4, F, S, c); }},
    {"allreduce side by side", ANELLO_OK, [](auto c) { return anello_allreduce(a, a + 4, 4, F, S, c); }},
    {"allreduce of equal buffers", ANELLO_OK, [](auto c) { return anello_allreduce(a, a, 4, F, S, c); }},
    {"allreduce in place", ANELLO_OK, [](auto c) { return anello_allreduce(ANELLO_IN_PLACE, a, 4, F, S, c); }},
    {"allreduce of nothing", ANELLO_OK, [](auto c) { return anello_allreduce(nullptr, nullptr, 0, F, S, c); }},
    {"allreduce of an unknown type", ANELLO_ERR_TYPE, [](auto c) { return anello_allreduce(a, b, 4, no_dtype, S, c); }},
    {"allreduce of no elements of an unknown type", ANELLO_ERR_TYPE,
     [](auto c) { return anello_allreduce(a, b, 0, no_dtype, S, c); }},
    {"allreduce by an unknown operation", ANELLO_ERR_TYPE,
     [](auto c) { return anello_allreduce(a, b, 4, F, no_op, c); }},
    {"allreduce by bits of floats", ANELLO_ERR_TYPE,
     [](auto c) { return anello_allreduce(a, b, 4, F, ANELLO_BOR, c); }},
    {"allreduce of bytes", ANELLO_ERR_TYPE, [](auto c) { return anello_allreduce(a, b, 4, ANELLO_BYTE, S, c); }},
    {"reduce_scatter_block of the least complex number", ANELLO_ERR_TYPE,
     [](auto c) { return anello_reduce_scatter_block(a, b, 4, ANELLO_COMPLEX64, ANELLO_MIN, c); }},
    {"allreduce of more than there is", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_allreduce(a, b, SIZE_MAX, F, S, c); }},
    {"broadcast without buffer", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_broadcast(nullptr, 4, F, 0, c); }},
    {"broadcast from a negative root", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_broadcast(a, 4, F, -1, c); }},
    {"broadcast from a root beyond the size", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_broadcast(a, 4, F, 1, c); }},
    {"broadcast of nothing from nobody", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_broadcast(a, 0, F, 7, c); }},
    {"broadcast of an unknown type", ANELLO_ERR_TYPE, [](auto c) { return anello_broadcast(a, 4, no_dtype, 0, c); }},
    {"broadcast of nothing", ANELLO_OK, [](auto c) { return anello_broadcast(nullptr, 0, F, 0, c); }},
    {"broadcast of bytes", ANELLO_OK, [](auto c) { return anello_broadcast(a, 4, ANELLO_BYTE, 0, c); }},
    {"allgather without sendbuf", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_allgather(nullptr, b, 4, F, c); }},
    {"allgather without recvbuf", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_allgather(a, nullptr, 4, F, c); }},
    {"allgather that overlaps", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_allgather(a, a + 1, 4, F, c); }},
    {"allgather from its own place", ANELLO_OK, [](auto c) { return anello_allgather(a, a, 4, F, c); }},
    {"allgather in place", ANELLO_OK, [](auto c) { return anello_allgather(ANELLO_IN_PLACE, a, 4, F, c); }},
    {"allgather of nothing", ANELLO_OK, [](auto c) { return anello_allgather(nullptr, nullptr, 0, F, c); }},
    {"allgather of an unknown type", ANELLO_ERR_TYPE, [](auto c) { return anello_allgather(a, b, 4, no_dtype, c); }},
    {"reduce_scatter_block without sendbuf", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_reduce_scatter_block(nullptr, b, 4, F, S, c); }},
    {"reduce_scatter_block that overlaps", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_reduce_scatter_block(a, a + 2, 4, F, S, c); }},
    {"reduce_scatter_block into its own part", ANELLO_OK,
     [](auto c) { return anello_reduce_scatter_block(a, a, 4, F, S, c); }},
    {"reduce_scatter_block in place", ANELLO_OK,
     [](auto c) { return anello_reduce_scatter_block(ANELLO_IN_PLACE, a, 4, F, S, c); }},
    {"reduce_scatter_block by an unknown operation", ANELLO_ERR_TYPE,
     [](auto c) { return anello_reduce_scatter_block(a, b, 4, F, no_op, c); }},
    {"reduce_scatter_block of nothing", ANELLO_OK,
     [](auto c) { return anello_reduce_scatter_block(nullptr, nullptr, 0, F, S, c); }},
    {"reduce without sendbuf", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_reduce(nullptr, b, 4, F, S, 0, c); }},
    {"reduce without the root's recvbuf", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_reduce(a, nullptr, 4, F, S, 0, c); }},
    {"reduce that overlaps", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_reduce(a, a + 3, 4, F, S, 0, c); }},
    {"reduce into the marker", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_reduce(a, in_place, 4, F, S, 0, c); }},
    {"reduce to a root beyond the size", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_reduce(a, b, 4, F, S, 1, c); }},
    {"reduce by an unknown operation", ANELLO_ERR_TYPE, [](auto c) { return anello_reduce(a, b, 4, F, no_op, 0, c); }},
    {"reduce in place", ANELLO_OK, [](auto c) { return anello_reduce(ANELLO_IN_PLACE, a, 4, F, S, 0, c); }},
    {"reduce of nothing", ANELLO_OK, [](auto c) { return anello_reduce(nullptr, nullptr, 0, F, S, 0, c); }},
    {"gather to a negative root", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_gather(a, b, 4, F, -1, c); }},
    {"gather that overlaps", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_gather(a + 1, a, 4, F, 0, c); }},
    {"gather of more than there is", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_gather(a, b, SIZE_MAX, F, 0, c); }},
    {"gather from its own place", ANELLO_OK, [](auto c) { return anello_gather(a, a, 4, F, 0, c); }},
    {"scatter without recvbuf", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_scatter(a, nullptr, 4, F, 0, c); }},
    {"scatter without the root's sendbuf", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_scatter(nullptr, b, 4, F, 0, c); }},
    {"scatter with the marker as sendbuf", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_scatter(ANELLO_IN_PLACE, b, 4, F, 0, c); }},
    {"scatter that overlaps", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_scatter(a, a + 2, 4, F, 0, c); }},
    {"scatter in place", ANELLO_OK, [](auto c) { return anello_scatter(a, in_place, 4, F, 0, c); }},
    {"scatter to its own place", ANELLO_OK, [](auto c) { return anello_scatter(a, a, 4, F, 0, c); }},
    {"alltoall without sendbuf", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_alltoall(nullptr, b, 4, F, c); }},
    {"alltoall that overlaps", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_alltoall(a, a + 1, 4, F, c); }},
    {"alltoall in place", ANELLO_OK, [](auto c) { return anello_alltoall(ANELLO_IN_PLACE, b, 4, F, c); }},
    {"scan that averages", ANELLO_ERR_TYPE, [](auto c) { return anello_scan(a, b, 4, F, ANELLO_AVG, c); }},
    {"scan without recvbuf", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_scan(a, nullptr, 4, F, S, c); }},
    {"scan that overlaps", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_scan(a, a + 1, 4, F, S, c); }},
    {"scan in place", ANELLO_OK, [](auto c) { return anello_scan(a, a, 4, F, S, c); }},
    {"exscan that averages", ANELLO_ERR_TYPE, [](auto c) { return anello_exscan(a, b, 4, F, ANELLO_AVG, c); }},
    {"exscan of the first rank, without recvbuf", ANELLO_OK,
     [](auto c) { return anello_exscan(a, nullptr, 4, F, S, c); }},
    {"exscan in place without recvbuf", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_exscan(ANELLO_IN_PLACE, nullptr, 4, F, S, c); }},
    {"allgatherv without recvcounts", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_allgatherv(a, 4, b, nullptr, zero, F, c); }},
    {"allgatherv without displs", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_allgatherv(a, 4, b, four, nullptr, F, c); }},
    {"allgatherv of another count than its own", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_allgatherv(a, 3, b, four, zero, F, c); }},
    {"allgatherv that overlaps", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_allgatherv(a + 1, 4, a, four, zero, F, c); }},
    {"allgatherv to beyond all memory", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_allgatherv(a, 4, b, four, huge, F, c); }},
    {"allgatherv in place", ANELLO_OK,
     [](auto c) { return anello_allgatherv(ANELLO_IN_PLACE, 9, b, four, zero, F, c); }},
    {"allgatherv of an unknown type", ANELLO_ERR_TYPE,
     [](auto c) { return anello_allgatherv(a, 4, b, four, zero, no_dtype, c); }},
    {"allgatherv of nothing", ANELLO_OK,
     [](auto c) { return anello_allgatherv(nullptr, 0, nullptr, zero, huge, F, c); }},
    {"gatherv without recvbuf", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_gatherv(a, 4, nullptr, four, zero, F, 0, c); }},
    {"gatherv to a root beyond the size", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_gatherv(a, 4, b, four, zero, F, 1, c); }},
    {"gatherv", ANELLO_OK, [](auto c) { return anello_gatherv(a, 4, b, four, zero, F, 0, c); }},
    {"scatterv without sendcounts", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_scatterv(a, nullptr, zero, b, 4, F, 0, c); }},
    {"scatterv of another count than its own", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_scatterv(a, four, zero, b, 5, F, 0, c); }},
    {"scatterv in place", ANELLO_OK, [](auto c) { return anello_scatterv(a, four, zero, in_place, 9, F, 0, c); }},
    {"reduce_scatter without recvcounts", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_reduce_scatter(a, b, nullptr, F, S, c); }},
    {"reduce_scatter without sendbuf", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_reduce_scatter(nullptr, b, four, F, S, c); }},
    {"reduce_scatter by an unknown operation", ANELLO_ERR_TYPE,
     [](auto c) { return anello_reduce_scatter(a, b, four, F, no_op, c); }},
    {"reduce_scatter of more than there is", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_reduce_scatter(a, b, huge, F, S, c); }},
    {"alltoallv without sdispls", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_alltoallv(a, four, nullptr, b, four, zero, F, c); }},
    {"alltoallv that sends itself another count than it expects", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_alltoallv(a, four, zero, b, zero, zero, F, c); }},
    {"alltoallv in place", ANELLO_OK,
     [](auto c) { return anello_alltoallv(ANELLO_IN_PLACE, nullptr, nullptr, b, four, zero, F, c); }},
    {"ialltoallv without request", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_ialltoallv(a, four, zero, b, four, zero, F, c, nullptr); }},
    {"post of a struct that ends before the counts", ANELLO_OK,
     [](auto c) { return post(c, [](auto& call) { call.size = offsetof(anello_call_t, sendcounts); }); }},
    {"barrier", ANELLO_OK, [](auto c) { return anello_barrier(c); }},
    {"send without buffer", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_send(nullptr, 4, F, 0, 0, c); }},
    {"send in place", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_send(ANELLO_IN_PLACE, 4, F, 0, 0, c); }},
    {"send to a negative rank", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_send(a, 4, F, -1, 0, c); }},
    {"send to a rank beyond the size", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_send(a, 4, F, 1, 0, c); }},
    {"send with a negative tag", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_send(a, 4, F, 0, -1, c); }},
    {"send with too large a tag", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_send(a, 4, F, 0, 1 << 30, c); }},
    {"send of an unknown type", ANELLO_ERR_TYPE, [](auto c) { return anello_send(a, 4, no_dtype, 0, 0, c); }},
    {"recv without buffer", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_recv(nullptr, 4, F, 0, 0, c, nullptr); }},
    {"recv from rank -3", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_recv(a, 4, F, -3, 0, c, nullptr); }},
    {"recv of an unknown type", ANELLO_ERR_TYPE, [](auto c) { return anello_recv(a, 4, no_dtype, 0, 0, c, nullptr); }},
    {"iallreduce without request", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_iallreduce(a, b, 4, F, S, c, nullptr); }},
    {"isend without request", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_isend(a, 4, F, 0, 0, c, nullptr); }},
    {"ibroadcast from a negative root", ANELLO_ERR_ARGUMENT,
     [](auto c) { return anello_ibroadcast(a, 4, F, -1, c, &request); }},
    {"post of nothing", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_post(c, nullptr, nullptr); }},
    {"post of a struct without size", ANELLO_ERR_ARGUMENT,
     [](auto c) { return post(c, [](auto& call) { call.size = 0; }); }},
    {"post of a struct from the future", ANELLO_ERR_ARGUMENT,
     [](auto c) { return post(c, [](auto& call) { call.size += 8; }); }},
    {"post of an unknown kind", ANELLO_ERR_ARGUMENT,
     [](auto c) { return post(c, [](auto& call) { call.kind = anello_kind_t(40); }); }},
    {"post with a negative deadline", ANELLO_ERR_ARGUMENT,
     [](auto c) { return post(c, [](auto& call) { call.timeout_ms = -1; }); }},
    {"rank to nowhere", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_rank(c, nullptr); }},
    {"size to nowhere", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_size(c, nullptr); }},
    {"local rank to nowhere", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_local_rank(c, nullptr); }},
    {"local size to nowhere", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_local_size(c, nullptr); }},
    {"transport to a negative rank", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_transport(c, -1, &name); }},
    {"transport to nowhere", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_transport(c, 0, nullptr); }},
    {"dup to nowhere", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_dup(c, nullptr); }},
    {"split by a negative colour", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_split(c, -7, 0, &made); }},
    {"split to nowhere", ANELLO_ERR_ARGUMENT, [](auto c) { return anello_comm_split(c, 0, 0, nullptr); }},
};

// Those that ask nothing of a communicator.
const std::vector<Row> kOthers =
    {
        {"create to nowhere", ANELLO_ERR_ARGUMENT, [](auto) { return anello_comm_create(nullptr, nullptr); }},
        {"create of no ranks", ANELLO_ERR_ARGUMENT, [](auto) { return anello_comm_create_all(0, &made); }},
        {"create all to nowhere", ANELLO_ERR_ARGUMENT, [](auto) { return anello_comm_create_all(2, nullptr); }},
        {"a unique id to nowhere", ANELLO_ERR_ARGUMENT, [](auto) { return anello_unique_id_create(nullptr); }},
        {"wait for nothing", ANELLO_ERR_ARGUMENT, [](auto) { return anello_wait(nullptr, nullptr); }},
        {"wait for a null request", ANELLO_OK,
         [](auto) {
  request = ANELLO_REQUEST_NULL;
  return anello_wait(&request, nullptr);
         }},
        {"test to nowhere", ANELLO_ERR_ARGUMENT, [](auto) { return anello_test(&request, nullptr, nullptr); }},
        {"wait for all of nothing", ANELLO_OK, [](auto) { return anello_wait_all(0, nullptr, nullptr); }},
        {"wait for all of a null array", ANELLO_ERR_ARGUMENT,
         [](auto) { return anello_wait_all(2, nullptr, nullptr); }},
        {"wait for any to nowhere", ANELLO_ERR_ARGUMENT,
         [](auto) { return anello_wait_any(1, &request, nullptr, nullptr); }},
        {"wait for some to nowhere", ANELLO_ERR_ARGUMENT,
         [](auto) { return anello_wait_some(1, &request, nullptr, indices, nullptr); }},
        {"wait for some without indices", ANELLO_ERR_ARGUMENT,
         [](auto) { return anello_wait_some(1, &request, &number, nullptr, nullptr); }},
        {"wait for what never was a request", ANELLO_ERR_STATE,
         [](auto) {
  request = reinterpret_cast<anello_request_t>(std::uintptr_t(0x7fff1234567890));
  return anello_wait(&request, nullptr);
         }},
                       {"a transport beyond the last", ANELLO_ERR_ARGUMENT,
                        [](auto) {
  anello_transport_info_t info{sizeof info, nullptr, ""};
  return anello_transport_query(99, &info);
                        }},
    {"a transport to nowhere", ANELLO_ERR_ARGUMENT, [](auto) { return anello_transport_query(0, nullptr); }},
    };

anello_result_t create_with(const std::function<void(anello_config_t&)>& change) {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  change(config);
  return anello_comm_create(&config, &made);
}

}  // namespace

TEST_CASE("what a call is refused for is stated, and nothing but the call is harmed") {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 0;
  config.world_size = 1;
  anello_comm_t comm = ANELLO_COMM_NULL;
  REQUIRE(anello_comm_create(&config, &comm) == ANELLO_OK);
  for (const Row& row : kRows) {
    INFO(row.what);
    made = nullptr;
    request = ANELLO_REQUEST_NULL;
    CHECK(row.call(comm) == row.stated);
    CHECK(made == nullptr);
    CHECK(request == ANELLO_REQUEST_NULL);
    if (row.stated != ANELLO_OK) CHECK(std::string(anello_last_error(comm)) != "");
    a[0] = 5;
    CHECK(anello_allreduce(a, b, 1, F, S, comm) == ANELLO_OK);
    CHECK(b[0] == 5);
  }
  for (const Row& row : kOthers) {
    INFO(row.what);
    request = ANELLO_REQUEST_NULL;
    CHECK(row.call(comm) == row.stated);
  }
  CHECK(anello_comm_destroy(comm) == ANELLO_OK);
}

TEST_CASE("a count whose bytes no size_t holds is refused by every kind of call") {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 0;
  config.world_size = 1;
  anello_comm_t comm = ANELLO_COMM_NULL;
  REQUIRE(anello_comm_create(&config, &comm) == ANELLO_OK);
  // Of float32 it would be 4 bytes.
  const std::size_t wraps[] = {SIZE_MAX / 4 + 2};
  for (const int kind :
       {ANELLO_ALLREDUCE, ANELLO_BROADCAST, ANELLO_ALLGATHER, ANELLO_REDUCE_SCATTER_BLOCK, ANELLO_SEND, ANELLO_RECV,
        ANELLO_REDUCE, ANELLO_GATHER, ANELLO_SCATTER, ANELLO_ALLTOALL, ANELLO_SCAN, ANELLO_EXSCAN, ANELLO_ALLGATHERV,
        ANELLO_GATHERV, ANELLO_SCATTERV, ANELLO_REDUCE_SCATTER, ANELLO_ALLTOALLV}) {
    for (const anello_dtype_t dtype : {ANELLO_FLOAT32, ANELLO_COMPLEX128}) {
      INFO("kind " << kind << " of " << anello_dtype_name(dtype));
      anello_call_t call = ANELLO_CALL_INITIALIZER;
      call.kind = static_cast<anello_kind_t>(kind);
      call.dtype = dtype;
      call.sendbuf = a;
      call.recvbuf = kind == ANELLO_BROADCAST ? a : b;
      call.count = wraps[0];
      call.sendcounts = call.recvcounts = wraps;
      call.sdispls = call.rdispls = zero;
      CHECK(anello_post(comm, &call, &request) == ANELLO_ERR_ARGUMENT);
      CHECK(anello_post_init(comm, &call, &request) == ANELLO_ERR_ARGUMENT);
    }
  }
  CHECK(anello_comm_destroy(comm) == ANELLO_OK);
}

TEST_CASE("a handle that is null, was destroyed or never was is an error of every function") {
  anello_comm_t destroyed = ANELLO_COMM_NULL;
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 0;
  config.world_size = 1;
  REQUIRE(anello_comm_create(&config, &destroyed) == ANELLO_OK);
  REQUIRE(anello_comm_destroy(destroyed) == ANELLO_OK);
  const auto never = reinterpret_cast<anello_comm_t>(std::uintptr_t(0x7fff12345678));
  for (const Row& row : kRows) {
    INFO(row.what);
    CHECK(row.call(ANELLO_COMM_NULL) == ANELLO_ERR_ARGUMENT);
    CHECK(row.call(destroyed) == ANELLO_ERR_STATE);
    CHECK(row.call(never) == ANELLO_ERR_STATE);
  }
  CHECK(anello_comm_abort(destroyed, "late") == ANELLO_ERR_STATE);
  CHECK(anello_comm_abort(ANELLO_COMM_NULL, nullptr) == ANELLO_ERR_ARGUMENT);
  CHECK(anello_comm_destroy(destroyed) == ANELLO_ERR_STATE);
  CHECK(anello_comm_destroy(never) == ANELLO_ERR_STATE);
  CHECK(anello_comm_destroy(ANELLO_COMM_NULL) == ANELLO_OK);
}

TEST_CASE("a configuration that makes no sense is refused") {
  CHECK(create_with([](auto& config) { config.size = 3; }) == ANELLO_ERR_ARGUMENT);
  CHECK(create_with([](auto& config) { config.size += 16; }) == ANELLO_ERR_ARGUMENT);
  CHECK(create_with([](auto& config) { config.rank = 0; }) == ANELLO_ERR_ARGUMENT);
  CHECK(create_with([](auto& config) { config.rank = 2, config.world_size = 2; }) == ANELLO_ERR_ARGUMENT);
  CHECK(create_with([](auto& config) { config.rank = 0, config.world_size = 0; }) == ANELLO_ERR_ARGUMENT);
  CHECK(create_with([](auto& config) { config.timeout_ms = -1; }) == ANELLO_ERR_ARGUMENT);
  CHECK(create_with([](auto& config) {
          config.rank = 0, config.world_size = 1, config.transports = "carrier-pigeon";
        }) == ANELLO_ERR_ARGUMENT);
  CHECK(create_with([](auto& config) { config.rank = 0, config.world_size = 2, config.url = "ftp://x"; }) ==
        ANELLO_ERR_ARGUMENT);
}

TEST_CASE("a request completes once") {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 0;
  config.world_size = 1;
  anello_comm_t comm = ANELLO_COMM_NULL;
  REQUIRE(anello_comm_create(&config, &comm) == ANELLO_OK);
  REQUIRE(anello_iallreduce(a, b, 4, F, S, comm, &request) == ANELLO_OK);
  anello_request_t copy = request;
  CHECK(anello_wait(&request, nullptr) == ANELLO_OK);
  CHECK(request == ANELLO_REQUEST_NULL);
  CHECK(anello_wait(&copy, nullptr) == ANELLO_ERR_STATE);
  CHECK(anello_test(&copy, &number, nullptr) == ANELLO_ERR_STATE);
  CHECK(anello_wait_any(1, &copy, &number, nullptr) == ANELLO_ERR_STATE);
  CHECK(anello_wait_all(1, &copy, nullptr) == ANELLO_ERR_STATE);
  // The slot is used again, the old handle is not.
  REQUIRE(anello_iallreduce(a, b, 4, F, S, comm, &request) == ANELLO_OK);
  CHECK(anello_wait(&copy, nullptr) == ANELLO_ERR_STATE);
  CHECK(anello_wait(&request, nullptr) == ANELLO_OK);
  CHECK(anello_comm_destroy(comm) == ANELLO_OK);
}
