// Marks a function of one element that all devices share: an ordinary function on the host, also a device
// function where nvcc compiles it. Headers of formulas put their functions into an anonymous namespace,
// because some files of the back ends are compiled for another processor than the rest of the program, and
// the linker must not take the functions of one file for those of another.
#ifndef TETHYS_RUNTIME_DEVICE_FORMULA_H_
#define TETHYS_RUNTIME_DEVICE_FORMULA_H_

#ifdef __CUDACC__
#define TETHYS_FORMULA __host__ __device__ static inline
#else
#define TETHYS_FORMULA static inline
#endif

#endif  // TETHYS_RUNTIME_DEVICE_FORMULA_H_
