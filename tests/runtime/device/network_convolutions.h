// The convolutions of networks, for benchmarks and for tests of engines. Pictures have 224 x 224 pixels; the
// pictures of lenet have 28 x 28.
#ifndef TETHYS_TESTS_RUNTIME_DEVICE_NETWORK_CONVOLUTIONS_H_
#define TETHYS_TESTS_RUNTIME_DEVICE_NETWORK_CONVOLUTIONS_H_

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/runtime/device/image_shapes.h"

namespace tethys {

struct NetworkConvolution {
  ConvolutionShape shape;
  int count;  // The number of such convolutions in the network.
};

inline ConvolutionShape SameConvolution(int64_t rows, int64_t size, int64_t in, int64_t out, int64_t window,
                                        int64_t stride = 1) {
  const int64_t padding = window / 2;
  return {.rows = rows,
          .in = {size, size, in},
          .out = out,
          .window = SquareWindow(window, stride, padding, padding),
          .has_bias = false};
}

inline std::vector<NetworkConvolution> LenetConvolutions(int64_t rows) {
  ConvolutionShape second = SameConvolution(rows, 14, 6, 16, 5);
  second.window = SquareWindow(5, 1, 0, 0);
  return {{SameConvolution(rows, 28, 1, 6, 5), 1}, {second, 1}};
}

// As in torchvision, a stage's stride is in the 3 x 3 convolution and in the shortcut of its first block.
inline std::vector<NetworkConvolution> Resnet50Convolutions(int64_t rows) {
  struct Stage {
    int64_t size, width, stride;
    int blocks;
  };
  std::vector<NetworkConvolution> all = {{SameConvolution(rows, 224, 3, 64, 7, 2), 1}};
  int64_t in = 64;
  for (const auto& [size, width, stride, blocks] :
       {Stage{56, 64, 1, 3}, {28, 128, 2, 4}, {14, 256, 2, 6}, {7, 512, 2, 3}}) {
    const int64_t out = 4 * width, before = stride * size;
    all.insert(all.end(), {{SameConvolution(rows, before, in, width, 1), 1},
                           {SameConvolution(rows, before, width, width, 3, stride), 1},
                           {SameConvolution(rows, before, in, out, 1, stride), 1},
                           {SameConvolution(rows, size, width, out, 1), blocks},
                           {SameConvolution(rows, size, out, width, 1), blocks - 1},
                           {SameConvolution(rows, size, width, width, 3), blocks - 1}});
    in = out;
  }
  return all;
}

inline std::vector<NetworkConvolution> Vgg16Convolutions(int64_t rows) {
  return {{SameConvolution(rows, 224, 3, 64, 3), 1},   {SameConvolution(rows, 224, 64, 64, 3), 1},
          {SameConvolution(rows, 112, 64, 128, 3), 1}, {SameConvolution(rows, 112, 128, 128, 3), 1},
          {SameConvolution(rows, 56, 128, 256, 3), 1}, {SameConvolution(rows, 56, 256, 256, 3), 2},
          {SameConvolution(rows, 28, 256, 512, 3), 1}, {SameConvolution(rows, 28, 512, 512, 3), 2},
          {SameConvolution(rows, 14, 512, 512, 3), 3}};
}

inline std::vector<NetworkConvolution> MobilenetConvolutions(int64_t rows) {
  struct Block {
    int64_t size, in, out, stride;
    int count;
  };
  std::vector<NetworkConvolution> all = {{SameConvolution(rows, 224, 3, 32, 3, 2), 1}};
  for (const auto& [size, in, out, stride, count] : {Block{112, 32, 64, 1, 1},
                                                     {112, 64, 128, 2, 1},
                                                     {56, 128, 128, 1, 1},
                                                     {56, 128, 256, 2, 1},
                                                     {28, 256, 256, 1, 1},
                                                     {28, 256, 512, 2, 1},
                                                     {14, 512, 512, 1, 5},
                                                     {14, 512, 1024, 2, 1},
                                                     {7, 1024, 1024, 1, 1}}) {
    ConvolutionShape depthwise = SameConvolution(rows, size, in, in, 3, stride);
    depthwise.groups = in;
    all.push_back({depthwise, count});
    all.push_back({SameConvolution(rows, size / stride, in, out, 1), count});
  }
  return all;
}

// The convolutions of lenet, resnet50, vgg16 or mobilenet; empty for another name.
inline std::vector<NetworkConvolution> NetworkConvolutions(const std::string& network, int64_t rows) {
  if (network == "lenet") return LenetConvolutions(rows);
  if (network == "resnet50") return Resnet50Convolutions(rows);
  if (network == "vgg16") return Vgg16Convolutions(rows);
  if (network == "mobilenet") return MobilenetConvolutions(rows);
  return {};
}

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_DEVICE_NETWORK_CONVOLUTIONS_H_
