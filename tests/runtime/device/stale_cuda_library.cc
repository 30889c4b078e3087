// A fake libtethys_cuda.so of another build.
extern "C" const void* tethys_cuda_library() {
  static constexpr const char* kTable[] = {"stale", nullptr};
  return kTable;
}
