// All kernels of the CUDA back end, compiled for the host.
// clang-format off
#include "tests/testing/cuda_on_host.h"  // Before the kernels, whose language it defines.
// clang-format on

#include "runtime/device/cuda/activation_kernels.cu"
#include "runtime/device/cuda/image_kernels.cu"
#include "runtime/device/cuda/kernels.cu"
#include "runtime/device/cuda/loss_kernels.cu"
#include "runtime/device/cuda/normalisation_kernels.cu"
#include "runtime/device/cuda/normalisation_sums.cu"
#include "runtime/device/cuda/update_kernels.cu"
