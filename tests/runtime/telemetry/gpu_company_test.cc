// Uses a fake NVML, which the build makes from fake_nvml.cc. It has one GPU, with the UUID 0, 1, ..., 15.
#include "runtime/telemetry/gpu_company.h"

#include <dlfcn.h>
#include <unistd.h>

#include <numeric>

#include "gtest/gtest.h"

namespace tethys {
namespace {

struct Process {
  unsigned number;
  unsigned percent = 0;
};

class GpuCompanyTest : public ::testing::Test {
 protected:
  ~GpuCompanyTest() override {
    On({});
    dlclose(library_);
  }
  void On(const std::vector<Process>& processes) {
    std::vector<unsigned> numbers, percent;
    for (const Process& process : processes) {
      numbers.push_back(process.number);
      percent.push_back(process.percent);
    }
    reinterpret_cast<void (*)(const unsigned*, const unsigned*, unsigned)>(
        dlsym(library_, "fake_nvml_set_processes"))(numbers.data(), percent.data(),
                                                    static_cast<unsigned>(numbers.size()));
  }
  static std::string Gpu() {
    std::string uuid(16, '\0');
    std::iota(uuid.begin(), uuid.end(), '\0');
    return uuid;
  }
  // The reading if the processes `before` are on the GPU until this process has a context, and `after` from
  // then on.
  GpuCompanyReading Reading(const std::vector<Process>& before, const std::vector<Process>& after) {
    On(before);
    GpuCompany company(FAKE_NVML);
    On(after);
    company.Watch(Gpu());
    return company.Read();
  }

  void* const library_ = dlopen(FAKE_NVML, RTLD_NOW);
  const unsigned own_ = static_cast<unsigned>(getpid());
};

TEST_F(GpuCompanyTest, WorkOfThisProcessDoesNotCountAsThatOfAnotherProcess) {
  const GpuCompanyReading reading = Reading({}, {{own_, 97}});
  EXPECT_EQ(reading.processes, 0);
  EXPECT_EQ(reading.share, 0);
}

TEST_F(GpuCompanyTest, GpuShareOfOtherProcessesIsTheSumOfTheirNewestSamples) {
  const GpuCompanyReading reading = Reading({{7, 30}, {8, 12}}, {{7, 30}, {own_, 55}, {8, 12}});
  EXPECT_EQ(reading.processes, 2);
  EXPECT_DOUBLE_EQ(reading.share.value(), 0.42);
}

TEST_F(GpuCompanyTest, IdleProcessIsCountedWithAShareOfZero) {
  const GpuCompanyReading reading = Reading({{7, 0}}, {{7, 0}, {own_, 55}});
  EXPECT_EQ(reading.processes, 1);
  EXPECT_EQ(reading.share, 0);
}

TEST_F(GpuCompanyTest, SoleProcessIdThatAppearsAfterCreationIsTakenForThisProcess) {
  const GpuCompanyReading reading = Reading({{7, 30}}, {{7, 30}, {4'000'000, 55}});
  EXPECT_EQ(reading.processes, 1);
  EXPECT_DOUBLE_EQ(reading.share.value(), 0.3);
}

TEST_F(GpuCompanyTest, SeveralProcessIdsThatAppearAfterCreationLeaveTheShareUnknown) {
  const GpuCompanyReading reading = Reading({}, {{4'000'000, 30}, {4'000'001, 55}});
  EXPECT_EQ(reading.processes, 1);
  EXPECT_EQ(reading.share, absl::nullopt);
}

TEST_F(GpuCompanyTest, DriverThatHidesThisProcessGivesNoReading) {
  const GpuCompanyReading reading = Reading({{7, 30}}, {{7, 30}});
  EXPECT_EQ(reading.processes, absl::nullopt);
  EXPECT_EQ(reading.share, absl::nullopt);
}

TEST_F(GpuCompanyTest, ManyProcessesAreAllCounted) {
  std::vector<Process> before;
  for (unsigned i = 0; i < 200; ++i) before.push_back({4'000'000 + i, 0});
  std::vector<Process> after = before;
  after.push_back({own_, 90});
  EXPECT_EQ(Reading(before, after).processes, 200);
}

TEST_F(GpuCompanyTest, UnknownGpuAndMissingLibraryGiveNoReading) {
  GpuCompany company(FAKE_NVML);
  company.Watch(std::string(16, 'a'));
  EXPECT_EQ(company.Read().processes, absl::nullopt);
  GpuCompany blind("libno-such-library.so");
  blind.Watch(Gpu());
  EXPECT_EQ(blind.Read().share, absl::nullopt);
}

}  // namespace
}  // namespace tethys
