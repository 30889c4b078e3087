// Measures Open MPI's all-reduce, which uses MPI's own shared memory. For each size, given in KiB, prints a
// line with the median time of a call in microseconds. shared_memory_peers.py builds and runs this program,
// with mpicxx and mpirun.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  constexpr int kRepeats = 15;
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; ++i) {
    const int count = std::atoi(argv[i]) * 256;
    const int calls = std::clamp(2'000'000 / count, 8, 200);
    std::vector<float> data(count, 0.0f);
    std::vector<double> times;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (int call = 0; call < calls; ++call) {
        MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      }
      times.push_back((MPI_Wtime() - start) * 1e6 / calls);
    }
    std::sort(times.begin(), times.end());
    if (rank == 0) std::printf("%.2f\n", times[kRepeats / 2]);
  }
  MPI_Finalize();
  return 0;
}
