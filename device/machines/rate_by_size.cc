#include "device/machines/rate_by_size.h"

#include <algorithm>
#include <cmath>

namespace castor {

double RateBySize::At(double size, double otherwise) const {
  if (points.empty()) return otherwise;
  const auto above =
      std::find_if(points.begin(), points.end(),
                   [&](const Point& point) { return point.size >= size; });
  if (above == points.begin()) return points.front().units_per_s;
  if (above == points.end()) return points.back().units_per_s;
  const Point& below = *(above - 1);
  const double part =
      std::log(size / below.size) / std::log(above->size / below.size);
  return below.units_per_s *
         std::pow(above->units_per_s / below.units_per_s, part);
}

}  // namespace castor
