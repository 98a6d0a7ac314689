// Integers, predicates, selections and moves.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/ptx/operation_table.h"

namespace castor::kernels::ptx {
namespace {

// Arithmetic modulo 2^bits: on the unsigned type.
struct MultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(uint64_t{a} * b + c);
  }
};
struct Product {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(uint64_t{a} * b);
  }
};
struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
// A division by zero has no result that PTX names; all bits are set here. The
// quotient that does not fit wraps.
struct Quotient {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) {
      return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    }
    return a / b;
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return a % b;
  }
};
// Amounts beyond the width shift everything out.
struct ShiftLeft {
  template <class T>
  T operator()(T a, uint32_t by) const {
    return by < sizeof(T) * 8 ? static_cast<T>(a << by) : T{0};
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, uint32_t by) const {
    constexpr uint32_t kBits = sizeof(T) * 8;
    if (by >= kBits)
      return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> by);
  }
};
// shf.l.wrap d, a, b, c: the upper half of b and a together, b above a, shifted
// left by c modulo 32.
struct FunnelShiftLeft {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t by) const {
    const uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(both << (by & 31u) >> 32);
  }
};
struct CountLeadingZeros {
  uint32_t operator()(uint32_t a) const { return std::countl_zero(a); }
};
// prmt d, a, b, c: four bytes of a (numbers 0 to 3) and b (4 to 7), whose
// numbers are in the lower four bits of c and so on; with bit 3 of them the
// byte's sign in all of its place.
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const uint64_t bytes = a | uint64_t{b} << 32;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t number = c >> (4 * i) & 15u;
      auto byte = static_cast<uint32_t>(bytes >> (8 * (number & 7u)) & 255u);
      if (number >= 8) byte = byte >= 128 ? 255 : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
struct Same {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};
template <class T>
struct WideProduct {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  Wide operator()(T a, T b) const { return Wide{a} * Wide{b}; }
};

// bfi d, a, b, c, n: the low n bits of a in b, from bit c on.
void InsertBits64(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const uint64_t* a = warp.Values<uint64_t>(o[1]);
  const uint64_t* b = warp.Values<uint64_t>(o[2]);
  const uint32_t* from = warp.Values<uint32_t>(o[3]);
  const uint32_t* count = warp.Values<uint32_t>(o[4]);
  SetLanes(warp, warp.Values<uint64_t>(o[0]), [&](int i) {
    const uint32_t at = from[i] & 0xff;
    const uint32_t n = count[i] & 0xff;
    if (at >= 64 || n == 0) return b[i];
    const uint64_t ones = (n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1)
                          << at;
    return (b[i] & ~ones) | (a[i] << at & ones);
  });
}

template <class F>
void PredicateBinary(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const LaneMask value =
      F()(warp.Predicate(o[1].place), warp.Predicate(o[2].place));
  LaneMask& to = warp.Predicate(o[0].place);
  to = (to & ~warp.mask()) | (value & warp.mask());
}
template <bool kNegate>
void PredicateUnary(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const LaneMask a = warp.Predicate(o[1].place);
  LaneMask& to = warp.Predicate(o[0].place);
  to = (to & ~warp.mask()) | ((kNegate ? ~a : a) & warp.mask());
}

// mov.b64 of one register to two halves, or of two to one.
void Move64(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  if (instruction.num_operands == 2) {
    Unary<uint64_t, uint64_t, Same>(warp, instruction);
  } else if (o[0].bytes == 8) {
    const uint32_t* low = warp.Values<uint32_t>(o[1]);
    const uint32_t* high = warp.Values<uint32_t>(o[2]);
    SetLanes(warp, warp.Values<uint64_t>(o[0]),
             [&](int i) { return low[i] | uint64_t{high[i]} << 32; });
  } else {
    const uint64_t* a = warp.Values<uint64_t>(o[2]);
    for (int half = 0; half < 2; ++half) {
      if (o[half].place < 0) continue;
      SetLanes(warp, warp.Values<uint32_t>(o[half]), [&](int i) {
        return static_cast<uint32_t>(a[i] >> (32 * half));
      });
    }
  }
}

// Signed and unsigned integers of one width.
template <class S>
void AddOfWidth(OperationTable* table) {
  using U = std::make_unsigned_t<S>;
  constexpr int kBytes = sizeof(S);
  OperationTable& t = *table;
  const std::vector<int> one = {kBytes, kBytes};
  const std::vector<int> two = {kBytes, kBytes, kBytes};
  const std::vector<int> compared = {1, kBytes, kBytes};
  const std::string s = absl::StrCat(".s", 8 * kBytes);
  const std::string u = absl::StrCat(".u", 8 * kBytes);
  const std::string b = absl::StrCat(".b", 8 * kBytes);
  for (const std::string& type : {s, u}) {
    t["add" + type] = {.execute = Binary<U, U, U, std::plus<U>>, .widths = two};
    t["sub" + type] = {.execute = Binary<U, U, U, std::minus<U>>,
                       .widths = two};
    t["mul.lo" + type] = {.execute = Binary<U, U, U, Product>, .widths = two};
    t["mad.lo" + type] = {.execute = Ternary<U, MultiplyAdd>,
                          .widths = {kBytes, kBytes, kBytes, kBytes}};
  }
  t["neg" + s] = {.execute = Unary<U, U, std::negate<U>>, .widths = one};
  t["min" + s] = {.execute = Binary<S, S, S, Smaller>, .widths = two};
  t["min" + u] = {.execute = Binary<U, U, U, Smaller>, .widths = two};
  t["max" + s] = {.execute = Binary<S, S, S, Larger>, .widths = two};
  t["max" + u] = {.execute = Binary<U, U, U, Larger>, .widths = two};
  t["div" + s] = {.execute = Binary<S, S, S, Quotient>, .widths = two};
  t["div" + u] = {.execute = Binary<U, U, U, Quotient>, .widths = two};
  t["rem" + s] = {.execute = Binary<S, S, S, Remainder>, .widths = two};
  t["rem" + u] = {.execute = Binary<U, U, U, Remainder>, .widths = two};
  t["and" + b] = {.execute = Binary<U, U, U, std::bit_and<U>>, .widths = two};
  t["or" + b] = {.execute = Binary<U, U, U, std::bit_or<U>>, .widths = two};
  t["xor" + b] = {.execute = Binary<U, U, U, std::bit_xor<U>>, .widths = two};
  t["not" + b] = {.execute = Unary<U, U, std::bit_not<U>>, .widths = one};
  const std::vector<int> shifted = {kBytes, kBytes, 4};
  t["shl" + b] = {.execute = Binary<U, U, uint32_t, ShiftLeft>,
                  .widths = shifted};
  t["shr" + b] = t["shr" + u] = {.execute = Binary<U, U, uint32_t, ShiftRight>,
                                 .widths = shifted};
  t["shr" + s] = {.execute = Binary<S, S, uint32_t, ShiftRight>,
                  .widths = shifted};
  t["setp.eq" + s] = t["setp.eq" + u] = t["setp.eq" + b] = {
      .execute = Compare<U, std::equal_to<U>>, .widths = compared};
  t["setp.ne" + s] = t["setp.ne" + u] = t["setp.ne" + b] = {
      .execute = Compare<U, std::not_equal_to<U>>, .widths = compared};
  t["setp.lt" + s] = {.execute = Compare<S, std::less<S>>, .widths = compared};
  t["setp.lt" + u] = {.execute = Compare<U, std::less<U>>, .widths = compared};
  t["setp.le" + s] = {.execute = Compare<S, std::less_equal<S>>,
                      .widths = compared};
  t["setp.le" + u] = {.execute = Compare<U, std::less_equal<U>>,
                      .widths = compared};
  t["setp.gt" + s] = {.execute = Compare<S, std::greater<S>>,
                      .widths = compared};
  t["setp.gt" + u] = {.execute = Compare<U, std::greater<U>>,
                      .widths = compared};
  t["setp.ge" + s] = {.execute = Compare<S, std::greater_equal<S>>,
                      .widths = compared};
  t["setp.ge" + u] = {.execute = Compare<U, std::greater_equal<U>>,
                      .widths = compared};
  std::vector<std::string> types = {s, u, b};
  if (kBytes > 2) types.push_back(absl::StrCat(".f", 8 * kBytes));
  for (const std::string& type : types) {
    t["selp" + type] = {.execute = Select<U>,
                        .widths = {kBytes, kBytes, kBytes, 1}};
    t["mov" + type] = {
        .execute = Unary<U, U, Same>, .form = Form::kMove, .widths = one};
  }
}

// bfi d, a, b, c, n: b with the lowest n bits of a from bit c on.
void InsertBits(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const uint32_t* a = warp.Values<uint32_t>(o[1]);
  const uint32_t* b = warp.Values<uint32_t>(o[2]);
  const uint32_t* c = warp.Values<uint32_t>(o[3]);
  const uint32_t* n = warp.Values<uint32_t>(o[4]);
  SetLanes(warp, warp.Values<uint32_t>(o[0]), [&](int i) -> uint32_t {
    const uint64_t bits = (uint64_t{1} << std::min(n[i] & 0xff, 32u)) - 1;
    const uint32_t at = std::min(c[i] & 0xff, 32u);
    const auto mask = static_cast<uint32_t>(bits << at);
    return (b[i] & ~mask) |
           (static_cast<uint32_t>(uint64_t{a[i]} << at) & mask);
  });
}

}  // namespace

void AddIntegerOperations(OperationTable* table) {
  OperationTable& t = *table;
  t["bfi.b32"] = {.execute = InsertBits, .widths = {4, 4, 4, 4, 4}};
  t["prmt.b32"] = {.execute = Ternary<uint32_t, Permute>,
                   .widths = {4, 4, 4, 4}};
  t["shf.l.wrap.b32"] = {.execute = Ternary<uint32_t, FunnelShiftLeft>,
                         .widths = {4, 4, 4, 4}};
  AddOfWidth<int16_t>(table);
  AddOfWidth<int32_t>(table);
  AddOfWidth<int64_t>(table);
  t["mov.b64"].execute = Move64;
  t["mul.wide.u16"] = {
      .execute = Binary<uint32_t, uint16_t, uint16_t, WideProduct<uint16_t>>,
      .widths = {4, 2, 2}};
  t["mul.wide.s16"] = {
      .execute = Binary<int32_t, int16_t, int16_t, WideProduct<int16_t>>,
      .widths = {4, 2, 2}};
  t["mul.wide.u32"] = {
      .execute = Binary<uint64_t, uint32_t, uint32_t, WideProduct<uint32_t>>,
      .widths = {8, 4, 4}};
  t["mul.wide.s32"] = {
      .execute = Binary<int64_t, int32_t, int32_t, WideProduct<int32_t>>,
      .widths = {8, 4, 4}};
  t["clz.b32"] = {.execute = Unary<uint32_t, uint32_t, CountLeadingZeros>,
                  .widths = {4, 4}};
  t["bfi.b64"] = {.execute = InsertBits64, .widths = {8, 8, 8, 4, 4}};
  t["and.pred"] = {.execute = PredicateBinary<std::bit_and<LaneMask>>,
                   .widths = {1, 1, 1}};
  t["or.pred"] = {.execute = PredicateBinary<std::bit_or<LaneMask>>,
                  .widths = {1, 1, 1}};
  t["xor.pred"] = {.execute = PredicateBinary<std::bit_xor<LaneMask>>,
                   .widths = {1, 1, 1}};
  t["not.pred"] = {.execute = PredicateUnary<true>, .widths = {1, 1}};
  t["mov.pred"] = {.execute = PredicateUnary<false>, .widths = {1, 1}};
  // Global memory has the same addresses in the space of all memory.
  t["cvta.to.global.u64"] = {.execute = Unary<uint64_t, uint64_t, Same>,
                             .widths = {8, 8}};
}

}  // namespace castor::kernels::ptx
