// TETHYS_FORMULA marks a function that computes one element, in the same way on all devices. The function is
// an ordinary function on the host. If nvcc compiles it, it is also a function of the GPU. Headers of
// formulas put their functions into an anonymous namespace, because some files of the back ends are compiled
// for another instruction set than the rest of the program, and the linker must not replace the functions of
// one file by those of another.
#ifndef TETHYS_RUNTIME_DEVICE_FORMULA_H_
#define TETHYS_RUNTIME_DEVICE_FORMULA_H_

#ifdef __CUDACC__
#define TETHYS_FORMULA __host__ __device__ static inline
#else
#define TETHYS_FORMULA static inline
#endif

#endif  // TETHYS_RUNTIME_DEVICE_FORMULA_H_
