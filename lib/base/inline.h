#pragma once
// The functions on single elements are compiled for hosts and, by nvcc, also for GPUs: the source is the same, and so
// is the arithmetic. They are forced inline because the linker could keep an out-of-line copy that uses instructions
// that this processor lacks.

#ifdef __CUDACC__
#define ANELLO_INLINE __host__ __device__ __forceinline__
#else
#define ANELLO_INLINE [[gnu::always_inline]] inline
#endif
