// Uses a fake NVML, NVIDIA's management library, which the build makes from fake_nvml.cc.
#include "runtime/telemetry/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "gmock/gmock.h"
#include "runtime/telemetry/resource_sampler.h"
#include "tests/testing/fake_clock.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The whole GPU's UUID: bytes 0, 1, ..., 15.
std::string WholeGpu() {
  std::string uuid(16, '\0');
  std::iota(uuid.begin(), uuid.end(), '\0');
  return uuid;
}
std::string PartOfAGpu() { return std::string(16, '\xff'); }

std::string OpenError(const std::string& uuid, const std::string& library) {
  return StatusText(NvmlGpu::Open(uuid, library).status());
}

TEST(Nvml, ReadsTheGpuWithTheGivenUuid) {
  const GpuReading reading = NvmlGpu::Open(WholeGpu(), FAKE_NVML).value()->Read();
  EXPECT_EQ(reading.percent, 75);
  EXPECT_EQ(reading.memory_bytes, int64_t{3} << 30);
  EXPECT_EQ(reading.power_watts, 412.5);
}

TEST(Nvml, ReadingThatTheGpuDoesNotSupportIsAbsent) {
  const GpuReading reading = NvmlGpu::Open(PartOfAGpu(), FAKE_NVML).value()->Read();
  EXPECT_EQ(reading.percent, absl::nullopt);
  EXPECT_EQ(reading.memory_bytes, int64_t{1} << 30);
  EXPECT_EQ(reading.power_watts, absl::nullopt);
}

TEST(Nvml, FailureOfAReadingIsLoggedOnce) {
  const auto gpu = NvmlGpu::Open(PartOfAGpu(), FAKE_NVML).value();
  ::testing::internal::CaptureStderr();
  gpu->Read();
  gpu->Read();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("nvmlDeviceGetPowerUsage: Unknown Error (999)"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST(Nvml, ErrorNamesTheMissingLibrary) {
  EXPECT_THAT(OpenError(WholeGpu(), "libno-such-library.so"),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("libno-such-library.so")));
}

TEST(Nvml, ErrorNamesTheMissingFunction) {
  EXPECT_THAT(OpenError(WholeGpu(), FAKE_NVML_WITHOUT_POWER),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("no function nvmlDeviceGetPowerUsage")));
}

TEST(Nvml, ErrorNamesTheMissingGpu) {
  EXPECT_THAT(OpenError(std::string(16, 'a'), FAKE_NVML),
              AllOf(HasSubstr("no GPU 61616161-6161-6161-6161-616161616161"), HasSubstr("Not Found (6)")));
  EXPECT_THAT(OpenError("gpu 0", FAKE_NVML), HasSubstr("identity of this device has 5"));
}

TEST(Nvml, LibraryIsShutDownWithItsLastGpu) {
  void* const library = dlopen(FAKE_NVML, RTLD_NOW);
  const auto begun = reinterpret_cast<int (*)()>(dlsym(library, "fake_nvml_begun"));
  {
    const auto gpu = NvmlGpu::Open(WholeGpu(), FAKE_NVML).value();
    EXPECT_EQ(begun(), 1);
  }
  OpenError("no such GPU 0000", FAKE_NVML);
  EXPECT_EQ(begun(), 0);
  dlclose(library);
}

TEST(Nvml, SamplerAddsGpuReadingsToSamplesOfTheProcessAndNotOfTheMachine) {
  FakeClock clock;
  ResourceSampler sampler(clock, {.interval = kSecond, .machine = true});
  ResourceSampler::Samples samples;
  clock.Advance(kSecond);
  sampler.Collect(samples);
  EXPECT_FALSE(samples[0].has_gpu_percent());
  sampler.WatchGpu(NvmlGpu::Open(WholeGpu(), FAKE_NVML).value());
  clock.Advance(kSecond);
  sampler.Collect(samples);
  ASSERT_EQ(samples.size(), 4);
  EXPECT_EQ(samples[2].gpu_percent(), 75);
  EXPECT_EQ(samples[2].gpu_memory_bytes(), int64_t{3} << 30);
  EXPECT_EQ(samples[2].gpu_power_watts(), 412.5);
  EXPECT_FALSE(samples[3].has_gpu_percent());  // This is a sample of the machine.
}

}  // namespace
}  // namespace tethys
