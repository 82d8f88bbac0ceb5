#pragma once
// The functions on single elements are compiled for hosts and, by nvcc, for GPUs as well: one text, and so one
// arithmetic. Forced inline: on hosts a shared out-of-line copy could be the one that was compiled for more than this
// processor has.

#ifdef __CUDACC__
#define ANELLO_INLINE __host__ __device__ __forceinline__
#else
#define ANELLO_INLINE [[gnu::always_inline]] inline
#endif
