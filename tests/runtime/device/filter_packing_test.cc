#include "runtime/device/cpu/filter_packing.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/device/arithmetic.h"

namespace tethys::cpu {

extern const Kernels kBaselineKernels;
#ifdef __x86_64__
extern const Kernels kAvx2Kernels;
#endif

namespace {

using dnnl::memory;

// The tables of kernels for all instruction sets that this processor has.
std::vector<const Kernels*> AllKernels() {
  std::vector<const Kernels*> all = {&kBaselineKernels, &SelectKernels()};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(&kAvx2Kernels);
#endif
  return all;
}

memory::desc Layout(const memory::dims& axes, memory::format_tag order) {
  return memory::desc(axes, memory::data_type::f32, order);
}

// The values after oneDNN has converted them from the layout `from` to the layout `to`.
std::vector<float> Reordered(std::vector<float> values, const memory::desc& from, const memory::desc& to) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  std::vector<float> result(to.get_size() / sizeof(float), -1);
  memory source(from, engine, values.data()), target(to, engine, result.data());
  dnnl::reorder(source, target).execute(stream, source, target);
  return result;
}

// 80 filters do not fill blocks of 32, 48 and 64.
TEST(FilterPacking, PackedFiltersEqualThoseOfOneDnnInAllMemoryFormats) {
  for (const memory::dims& axes : {memory::dims{80, 48, 3, 2}, {32, 64, 1, 1}, {256, 16, 2, 5}}) {
    const memory::desc plain = Layout(axes, memory::format_tag::ohwi);
    const std::vector<float> filters =
        RandomFloats(static_cast<int64_t>(plain.get_size() / sizeof(float)), 1);
    for (const auto order :
         {memory::format_tag::Acdb16a, memory::format_tag::Acdb32a, memory::format_tag::Acdb48a,
          memory::format_tag::Acdb64a, memory::format_tag::ABcd16b16a, memory::format_tag::BAcd16b16a}) {
      SCOPED_TRACE(static_cast<int>(order));
      const memory::desc layout = Layout(axes, order);
      const auto packing = FilterPacking::Of(layout);
      ASSERT_TRUE(packing.has_value());
      const std::vector<float> expected = Reordered(filters, plain, layout);
      for (const Kernels* kernels : AllKernels()) {
        for (const int threads : {1, 3}) {
          std::vector<float> packed(expected.size(), -2), unpacked(filters.size(), -3);
          packing->Pack(*kernels, threads, filters.data(), packed.data());
          EXPECT_EQ(packed, expected) << kernels->instruction_set;
          packing->Unpack(*kernels, threads, packed.data(), unpacked.data());
          EXPECT_EQ(unpacked, filters) << kernels->instruction_set;
        }
      }
    }
  }
}

TEST(FilterPacking, FilterPackingAcceptsOnlyLayoutsOfFullTiles) {
  EXPECT_TRUE(FilterPacking::Of(Layout({32, 16, 3, 3}, memory::format_tag::Acdb32a)).has_value());
  EXPECT_FALSE(FilterPacking::Of(Layout({32, 3, 3, 3}, memory::format_tag::Acdb32a)).has_value());
  EXPECT_FALSE(FilterPacking::Of(Layout({40, 16, 3, 3}, memory::format_tag::Acdb32a)).has_value());
  EXPECT_FALSE(FilterPacking::Of(Layout({32, 16, 3, 3}, memory::format_tag::ABcd16a16b)).has_value());
  EXPECT_FALSE(FilterPacking::Of(Layout({32, 16, 3, 3}, memory::format_tag::Acdb8a)).has_value());
  EXPECT_FALSE(FilterPacking::Of(Layout({2, 32, 16, 3, 3}, memory::format_tag::gohwi)).has_value());
}

}  // namespace
}  // namespace tethys::cpu
