// What tests choose of the CUDA runtime on the host (cuda_runtime_on_host.cc).
#ifndef TETHYS_TESTS_TESTING_CUDA_RUNTIME_ON_HOST_H_
#define TETHYS_TESTS_TESTING_CUDA_RUNTIME_ON_HOST_H_

namespace tethys::cuda {

// As a GPU that reads the host's pageable memory (GH200): copies from there to the device are asynchronous
// and happen when a stream is synchronized. Devices ask for it when they are made.
void SetReadsPageableMemory(bool reads);

}  // namespace tethys::cuda

#endif  // TETHYS_TESTS_TESTING_CUDA_RUNTIME_ON_HOST_H_
