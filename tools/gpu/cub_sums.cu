// The times of cub::DeviceTransform as a sum of two, for gpu-verify's row 4d: launched, and as one of 20 in a graph.
#include <cub/device/device_transform.cuh>
#include <cuda/std/tuple>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_bf16.h>

namespace {

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

struct Sum {
  template <class T>
  __device__ T operator()(T left, T right) const {
    return left + right;
  }
};

template <class Work>
double median_us(cudaStream_t stream, Work work) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int round = 0; round < 25; ++round) {
    CHECK(cudaEventRecord(begin, stream));
    work();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (round >= 5) times.push_back(ms);
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return 1e3 * times[10];
}

void print(const char* type, std::size_t mebibytes, const char* how, double us) {
  std::printf(
      "{\"name\": \"%s %zu MiB %s\", \"verdict\": \"INFO\", \"figure\": \"%.4g us\", \"bound\": \"\", \"note\": \"CUB "
      "%d\"}\n",
      type, mebibytes, how, us, CUB_VERSION);
  std::fflush(stdout);
}

template <class T>
void measure(const char* type, std::size_t mebibytes, cudaStream_t stream) {
  const std::size_t bytes = mebibytes << 20, count = bytes / sizeof(T);
  T *a, *b, *c;
  CHECK(cudaMalloc(&a, bytes));
  CHECK(cudaMalloc(&b, bytes));
  CHECK(cudaMalloc(&c, bytes));
  CHECK(cudaMemset(a, 0x3f, bytes));
  CHECK(cudaMemset(b, 0x3e, bytes));
  const auto work = [&] {
    CHECK(cub::DeviceTransform::Transform(cuda::std::make_tuple(a, b), c, count, Sum{}, stream));
  };
  print(type, mebibytes, "launched", median_us(stream, work));
  constexpr int kParts = 20;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int part = 0; part < kParts; ++part) work();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  print(type, mebibytes, "replayed", median_us(stream, [&] { CHECK(cudaGraphLaunch(executable, stream)); }) / kParts);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(c));
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const std::size_t mebibytes : {1, 16, 64, 256, 1024}) {
    if (small && mebibytes > 1) break;
    measure<float>("float32", mebibytes, stream);
    measure<__nv_bfloat16>("bfloat16", mebibytes, stream);
  }
  CHECK(cudaStreamDestroy(stream));
}
