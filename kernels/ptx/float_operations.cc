// Floating point. The host's operations round to nearest even, as PTX's ".rn"
// does; this file is compiled without contraction (-ffp-contract=off).
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/ptx/operation_table.h"

namespace castor::kernels::ptx {
namespace {

struct FusedMultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};

// a b + c, rounded down once. The product of two floats is exact in fp64, so
// that the sum's error is known: Knuth's TwoSum.
struct FusedMultiplyAddDown {
  float operator()(float a, float b, float c) const {
    const double product = double{a} * double{b};
    const double sum = product + double{c};
    const auto rounded = static_cast<float>(sum);
    if (!std::isfinite(sum) || !std::isfinite(rounded)) {
      // A finite sum that is too large rounds down to the largest float.
      if (std::isfinite(sum) && rounded > 0) {
        return std::numeric_limits<float>::max();
      }
      return rounded;
    }
    const double back = sum - product;
    const double error = (product - (sum - back)) + (double{c} - back);
    const bool is_above =
        double{rounded} > sum || (double{rounded} == sum && error < 0);
    return is_above ? std::nextafter(rounded,
                                     -std::numeric_limits<float>::infinity())
                    : rounded;
  }
};

// The one that is a number; +0 is larger than -0.
template <class T>
struct Maximum {
  T operator()(T a, T b) const {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a < b ? b : a;
  }
};
template <class T>
struct Minimum {
  T operator()(T a, T b) const {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return b < a ? b : a;
  }
};
template <class T>
struct Root {
  T operator()(T a) const { return std::sqrt(a); }
};
template <class T>
struct Absolute {
  T operator()(T a) const { return std::abs(a); }
};
template <class T>
struct Reciprocal {
  T operator()(T a) const { return T{1} / a; }
};
// The sign of a, and all else of b.
struct CopySign {
  float operator()(float a, float b) const { return std::copysign(b, a); }
};

// Up to kUnits units in the last place away from `right`, by an operand's bits:
// as wrong as an approximation may be, and always the same.
template <int kUnits>
float Approximately(float right, float operand) {
  if (!std::isfinite(right) || right == 0 || operand == 0) return right;
  const uint32_t hash = std::bit_cast<uint32_t>(operand) * 0x9e3779b1u >> 16;
  const int by = static_cast<int>(hash % (2 * kUnits + 1)) - kUnits;
  // Floats of one sign follow each other as their bits do.
  return std::bit_cast<float>(std::bit_cast<uint32_t>(right) +
                              static_cast<uint32_t>(by));
}
float WithoutDenormal(float a) {
  return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0f, a) : a;
}
struct PowerOfTwo {
  float operator()(float a) const {
    return Approximately<2>(static_cast<float>(std::exp2(double{a})), a);
  }
};
struct PowerOfTwoFlushed {
  float operator()(float a) const {
    return WithoutDenormal(PowerOfTwo()(WithoutDenormal(a)));
  }
};
struct ReciprocalFlushed {
  float operator()(float a) const {
    return WithoutDenormal(Approximately<1>(1 / WithoutDenormal(a), a));
  }
};
// PTX: "a fast, gross approximation": of the upper 32 bits, to the upper 32.
struct GrossReciprocal {
  double operator()(double a) const {
    constexpr uint64_t kUpper = ~uint64_t{0xffffffff};
    if (std::fpclassify(a) == FP_SUBNORMAL) a = std::copysign(0.0, a);
    const double upper =
        std::bit_cast<double>(std::bit_cast<uint64_t>(a) & kUpper);
    const double result = 1 / upper;
    if (std::isnan(result) || std::isinf(result)) return result;
    if (std::fpclassify(result) == FP_SUBNORMAL) {
      return std::copysign(0.0, result);
    }
    return std::bit_cast<double>(std::bit_cast<uint64_t>(result) & kUpper);
  }
};

template <class F>
struct OrUnordered {
  template <class T>
  bool operator()(T a, T b) const {
    return std::isunordered(a, b) || F()(a, b);
  }
};

template <class T>
void AddOfType(OperationTable* table) {
  constexpr int kBytes = sizeof(T);
  OperationTable& t = *table;
  const std::string type = absl::StrCat(".f", 8 * kBytes);
  const std::vector<int> one = {kBytes, kBytes};
  const std::vector<int> two = {kBytes, kBytes, kBytes};
  t["add.rn" + type] = {.execute = Binary<T, T, T, std::plus<T>>,
                        .widths = two};
  t["sub.rn" + type] = {.execute = Binary<T, T, T, std::minus<T>>,
                        .widths = two};
  t["mul.rn" + type] = {.execute = Binary<T, T, T, std::multiplies<T>>,
                        .widths = two};
  t["div.rn" + type] = {.execute = Binary<T, T, T, std::divides<T>>,
                        .widths = two};
  t["fma.rn" + type] = {.execute = Ternary<T, FusedMultiplyAdd>,
                        .widths = {kBytes, kBytes, kBytes, kBytes}};
  t["sqrt.rn" + type] = {.execute = Unary<T, T, Root<T>>, .widths = one};
  t["rcp.rn" + type] = {.execute = Unary<T, T, Reciprocal<T>>, .widths = one};
  t["neg" + type] = {.execute = Unary<T, T, std::negate<T>>, .widths = one};
  t["abs" + type] = {.execute = Unary<T, T, Absolute<T>>, .widths = one};
  t["max" + type] = {.execute = Binary<T, T, T, Maximum<T>>, .widths = two};
  t["min" + type] = {.execute = Binary<T, T, T, Minimum<T>>, .widths = two};
  const std::vector<int> compared = {1, kBytes, kBytes};
  const auto compare = [&](const char* name, Execute plain, Execute unordered) {
    t[absl::StrCat("setp.", name, type)] = {.execute = plain,
                                            .widths = compared};
    t[absl::StrCat("setp.", name, "u", type)] = {.execute = unordered,
                                                 .widths = compared};
  };
  compare("eq", Compare<T, std::equal_to<T>>,
          Compare<T, OrUnordered<std::equal_to<T>>>);
  compare("lt", Compare<T, std::less<T>>,
          Compare<T, OrUnordered<std::less<T>>>);
  compare("le", Compare<T, std::less_equal<T>>,
          Compare<T, OrUnordered<std::less_equal<T>>>);
  compare("gt", Compare<T, std::greater<T>>,
          Compare<T, OrUnordered<std::greater<T>>>);
  compare("ge", Compare<T, std::greater_equal<T>>,
          Compare<T, OrUnordered<std::greater_equal<T>>>);
  // "ne" does not hold of NaNs, "neu" does, as C's != does.
  struct OrderedAndDifferent {
    bool operator()(T a, T b) const { return a < b || a > b; }
  };
  compare("ne", Compare<T, OrderedAndDifferent>,
          Compare<T, std::not_equal_to<T>>);
}

}  // namespace

void AddFloatOperations(OperationTable* table) {
  OperationTable& t = *table;
  AddOfType<float>(table);
  AddOfType<double>(table);
  t["fma.rm.f32"] = {.execute = Ternary<float, FusedMultiplyAddDown>,
                     .widths = {4, 4, 4, 4}};
  t["copysign.f32"] = {.execute = Binary<float, float, float, CopySign>,
                       .widths = {4, 4, 4}};
  t["ex2.approx.f32"] = {.execute = Unary<float, float, PowerOfTwo>,
                         .widths = {4, 4}};
  t["ex2.approx.ftz.f32"] = {.execute = Unary<float, float, PowerOfTwoFlushed>,
                             .widths = {4, 4}};
  t["rcp.approx.ftz.f32"] = {.execute = Unary<float, float, ReciprocalFlushed>,
                             .widths = {4, 4}};
  t["rcp.approx.ftz.f64"] = {.execute = Unary<double, double, GrossReciprocal>,
                             .widths = {8, 8}};
}

}  // namespace castor::kernels::ptx
