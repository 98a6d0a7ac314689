// A rate that depends on how large a piece of work is: what is small does not
// fill a machine, and what is large does not fit its caches.
#ifndef CASTOR_DEVICE_MACHINES_RATE_BY_SIZE_H_
#define CASTOR_DEVICE_MACHINES_RATE_BY_SIZE_H_

#include <vector>

namespace castor {

// As measured at some sizes. Between two of them the logarithm of the rate goes
// straight with that of the size; beyond them it stays.
struct RateBySize {
  struct Point {
    double size = 0;  // of the work, in any unit
    double units_per_s = 0;
  };
  std::vector<Point> points = {};  // sizes ascend; none: nothing is known

  // Units a second at a size above 0; `otherwise`: nothing is known.
  double At(double size, double otherwise) const;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_MACHINES_RATE_BY_SIZE_H_
