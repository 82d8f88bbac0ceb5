// The driver's table against CUDA's own header, where the toolkit is: each function takes as many parameters, of the
// same sizes and kinds. Nothing here runs.
#include "kernels/cuda/driver.h"

#include <cuda.h>

#include <cstddef>
#include <type_traits>

namespace {

template <class T>
constexpr bool kAddress = std::is_pointer_v<T> || std::is_same_v<T, CUdeviceptr>;

template <class Ours, class Theirs>
constexpr bool kSameKind =
    sizeof(Ours) == sizeof(Theirs) && std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs> &&
    (std::is_pointer_v<Ours> ? kAddress<Theirs> : !std::is_pointer_v<Theirs>);

template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class... Ours, class... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) struct Same<int (*)(Ours...), CUresult (*)(Theirs...)>
    : std::bool_constant<(kSameKind<Ours, Theirs> && ...)> {
};

using anello::kernels::cuda::Driver;
using anello::kernels::cuda::IpcHandle;
using anello::kernels::cuda::MemoryAccess;
using anello::kernels::cuda::MemoryProperties;
#define ANELLO_CUDA_CALL(field, name, parameters) \
  static_assert(Same<decltype(Driver::field), decltype(&name)>::value, #name " is declared otherwise in cuda.h");
#include "kernels/cuda/driver.def"
#undef ANELLO_CUDA_CALL

// It can fail.
static_assert(!Same<int (*)(int*, int), decltype(&cuInit)>::value);
static_assert(!Same<int (*)(void*), decltype(&cuInit)>::value);

using namespace anello::kernels::cuda;
static_assert(kMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && kIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kRangeStart == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR && kRangeSize == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(kMappingStart == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
static_assert(kPool == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
static_assert(kMappingSize == CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
static_assert(kHandleTypes == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
static_assert(kDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(sizeof(MemoryProperties) == sizeof(CUmemAllocationProp) &&
              sizeof(MemoryAccess) == sizeof(CUmemAccessDesc));
static_assert(sizeof(RowsToDevice) == sizeof(CUDA_MEMCPY2D) &&
              offsetof(RowsToDevice, from) == offsetof(CUDA_MEMCPY2D, srcHost));
static_assert(offsetof(RowsToDevice, from_pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(RowsToDevice, into) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(RowsToDevice, into_pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(offsetof(RowsToDevice, row_bytes) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(RowsToDevice{}.from_type == CU_MEMORYTYPE_HOST && RowsToDevice{}.into_type == CU_MEMORYTYPE_DEVICE);
static_assert(offsetof(MemoryProperties, handle_types) == offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(MemoryProperties, place) == offsetof(CUmemAllocationProp, location));
static_assert(MemoryProperties{}.type == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(MemoryPlace{}.type == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(MemoryAccess{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(kBufferId == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(kHasIpcHandle == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
static_assert(kNonBlocking == CU_STREAM_NON_BLOCKING && kReachPeer == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kNotReady == CUDA_ERROR_NOT_READY && kAlreadyMapped == CUDA_ERROR_ALREADY_MAPPED);
static_assert(kAlreadyReaches == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED && kMps == CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
static_assert(kDeviceMemory == CU_MEMORYTYPE_DEVICE);
static_assert(kWaitReached == CU_STREAM_WAIT_VALUE_GEQ && kPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kRegisters == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(kMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kFlushOptions == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
static_assert(kStoresOrdered == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(kHasDmaBufs == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED && kDmaBuf == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(kFlushFromHost == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
static_assert(kCurrentContext == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(kForTheOwner == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
              kForTheOwner == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
static_assert(kCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

}  // namespace
