// Helpers that add operations to the table (operations.h), for the files that
// define them.
#ifndef CASTOR_KERNELS_PTX_OPERATION_TABLE_H_
#define CASTOR_KERNELS_PTX_OPERATION_TABLE_H_

#include <map>
#include <string>

#include "kernels/ptx/operations.h"
#include "kernels/ptx/warp.h"

namespace castor::kernels::ptx {

using OperationTable = std::map<std::string, Operation, std::less<>>;

void AddIntegerOperations(OperationTable* table);
void AddFloatOperations(OperationTable* table);
void AddConversions(OperationTable* table);
void AddMemoryOperations(OperationTable* table);
void AddWarpOperations(OperationTable* table);

// results[lane] = f(lane) for the lanes that execute the instruction.
template <class T, class F>
inline void SetLanes(Warp& warp, T* results, const F& f) {
  if (warp.mask() == kAllLanes) {
    T all[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) all[lane] = f(lane);
    for (int lane = 0; lane < kLanes; ++lane) results[lane] = all[lane];
  } else {
    ForLanes(warp.mask(), [&](int lane) { results[lane] = f(lane); });
  }
}
template <class F>
inline void SetPredicate(Warp& warp, const Operand& result, const F& f) {
  if (result.place < 0) return;
  LaneMask holds = 0;
  ForLanes(warp.mask(), [&](int lane) { holds |= LaneMask{f(lane)} << lane; });
  LaneMask& to = warp.Predicate(result.place);
  to = (to & ~warp.mask()) | holds;
}

// d = F()(a), d = F()(a, b), d = F()(a, b, c) for each lane. Types are the
// values', not the registers', which have no type.
template <class D, class A, class F>
void Unary(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const A* a = warp.Values<A>(o[1]);
  SetLanes(warp, warp.Values<D>(o[0]), [&](int i) -> D { return F()(a[i]); });
}
template <class D, class A, class B, class F>
void Binary(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const A* a = warp.Values<A>(o[1]);
  const B* b = warp.Values<B>(o[2]);
  SetLanes(warp, warp.Values<D>(o[0]),
           [&](int i) -> D { return F()(a[i], b[i]); });
}
template <class T, class F>
void Ternary(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const T* a = warp.Values<T>(o[1]);
  const T* b = warp.Values<T>(o[2]);
  const T* c = warp.Values<T>(o[3]);
  SetLanes(warp, warp.Values<T>(o[0]),
           [&](int i) -> T { return F()(a[i], b[i], c[i]); });
}
template <class T, class F>
void Compare(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const T* a = warp.Values<T>(o[1]);
  const T* b = warp.Values<T>(o[2]);
  SetPredicate(warp, o[0], [&](int i) { return F()(a[i], b[i]); });
}
template <class T>
void Select(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const T* a = warp.Values<T>(o[1]);
  const T* b = warp.Values<T>(o[2]);
  const LaneMask first = warp.Predicate(o[3].place);
  SetLanes(warp, warp.Values<T>(o[0]),
           [&](int i) { return (first >> i & 1) != 0 ? a[i] : b[i]; });
}

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_OPERATION_TABLE_H_
