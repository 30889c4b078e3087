#include "deploy/statistics.h"

#include <array>
#include <cmath>

namespace tethys {

double StudentQuantile(double normal, double degrees) {
  const double first = (std::pow(normal, 3) + normal) / 4;
  const double second = (5 * std::pow(normal, 5) + 16 * std::pow(normal, 3) + 3 * normal) / 96;
  return normal + first / degrees + second / (degrees * degrees);
}

double StudentQuantile975(int degrees) {
  constexpr std::array<double, 5> kQuantiles = {12.706, 4.303, 3.182, 2.776, 2.571};
  if (degrees <= static_cast<int>(kQuantiles.size())) return kQuantiles[degrees - 1];
  return StudentQuantile(kNormal975, degrees);
}

}  // namespace tethys
