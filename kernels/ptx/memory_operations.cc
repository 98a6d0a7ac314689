// Loads, stores, atomic operations, and copies that a thread waits for later.
#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/ptx/operation_table.h"

namespace castor::kernels::ptx {
namespace {

uint64_t AddressOf(Warp& warp, const Operand& operand, int lane) {
  return operand.bytes == 8 ? warp.Values<uint64_t>(operand)[lane]
                            : warp.Values<uint32_t>(operand)[lane];
}

// A register may be wider than the value that comes to it.
template <class T>
void SetRegister(Warp& warp, const Operand& operand, int lane, T value) {
  switch (operand.bytes) {
    case 2:
      warp.Values<uint16_t>(operand)[lane] = static_cast<uint16_t>(value);
      break;
    case 4:
      warp.Values<uint32_t>(operand)[lane] = static_cast<uint32_t>(value);
      break;
    case 8:
      warp.Values<uint64_t>(operand)[lane] = static_cast<uint64_t>(value);
      break;
    default:  // "_"
      break;
  }
}
template <class T>
T GetRegister(Warp& warp, const Operand& operand, int lane) {
  switch (operand.bytes) {
    case 2:
      return static_cast<T>(warp.Values<uint16_t>(operand)[lane]);
    case 4:
      return static_cast<T>(warp.Values<uint32_t>(operand)[lane]);
    default:
      return static_cast<T>(warp.Values<uint64_t>(operand)[lane]);
  }
}

// Returns true if all lanes that execute the instruction name one address.
bool IsOneAddress(Warp& warp, const Operand& operand) {
  const uint64_t first =
      AddressOf(warp, operand, std::countr_zero(warp.mask()));
  bool one = true;
  ForLanes(warp.mask(), [&](int lane) {
    one = one && AddressOf(warp, operand, lane) == first;
  });
  return one;
}

template <Space kSpace, class T, int kCount>
void Load(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  T values[kCount];
  const auto read = [&](int lane) {
    const uint8_t* from = warp.Reach(
        kSpace, lane, AddressOf(warp, o[kCount], lane) + instruction.offset,
        sizeof(T) * kCount, /*write=*/false);
    if (from != nullptr) std::memcpy(values, from, sizeof(values));
    return from != nullptr;
  };
  const auto set = [&](int lane) {
    for (int i = 0; i < kCount; ++i) SetRegister(warp, o[i], lane, values[i]);
  };
  if (IsOneAddress(warp, o[kCount])) {
    // Two lanes stand for all, also in the record of reads.
    if (!read(std::countr_zero(warp.mask())) ||
        !read(31 - std::countl_zero(warp.mask()))) {
      return;
    }
    ForLanes(warp.mask(), set);
    return;
  }
  ForLanes(warp.mask(), [&](int lane) {
    if (read(lane)) set(lane);
  });
}

template <Space kSpace, class T, int kCount>
void Store(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  ForLanes(warp.mask(), [&](int lane) {
    uint8_t* to = warp.Reach(kSpace, lane,
                             AddressOf(warp, o[0], lane) + instruction.offset,
                             sizeof(T) * kCount, /*write=*/true);
    if (to == nullptr) return;
    T values[kCount];
    for (int i = 0; i < kCount; ++i) {
      values[i] = GetRegister<T>(warp, o[1 + i], lane);
    }
    std::memcpy(to, values, sizeof(values));
  });
}

// atom d, [a], b, ...: d becomes the old value; new = F()(old, b, ...).
struct Sum {
  uint64_t operator()(uint64_t old, uint64_t b) const { return old + b; }
};
struct Largest {
  int64_t operator()(int64_t old, int64_t b) const { return std::max(old, b); }
};
template <class T, class F>
void Atomic(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  ForLanes(warp.mask(), [&](int lane) {
    uint8_t* at = warp.ReachAtomically(
        lane, AddressOf(warp, o[1], lane) + instruction.offset, sizeof(T),
        /*write=*/true);
    if (at == nullptr) return;
    T old;
    std::memcpy(&old, at, sizeof(T));
    warp.Look(lane, AddressOf(warp, o[1], lane) + instruction.offset);
    const T value = F()(old, warp.Values<T>(o[2])[lane]);
    std::memcpy(at, &value, sizeof(T));
    SetRegister(warp, o[0], lane, old);
  });
}
// ld.relaxed d, [a]
void LoadRelaxed(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  ForLanes(warp.mask(), [&](int lane) {
    const uint64_t address = AddressOf(warp, o[1], lane) + instruction.offset;
    const uint8_t* from =
        warp.ReachAtomically(lane, address, 4, /*write=*/false);
    if (from == nullptr) return;
    warp.Look(lane, address);
    uint32_t value;
    std::memcpy(&value, from, 4);
    SetRegister(warp, o[0], lane, value);
  });
}
// red [a], b
template <bool kRelease>
void AddTo(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  ForLanes(warp.mask(), [&](int lane) {
    const uint64_t address = AddressOf(warp, o[0], lane) + instruction.offset;
    uint8_t* at = warp.ReachAtomically(lane, address, 4, /*write=*/true);
    if (at == nullptr) return;
    if (kRelease) warp.Release(lane, address);
    uint32_t value;
    std::memcpy(&value, at, 4);
    value += warp.Values<uint32_t>(o[1])[lane];
    std::memcpy(at, &value, 4);
  });
}
void CompareAndSwap(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  ForLanes(warp.mask(), [&](int lane) {
    uint8_t* at = warp.ReachAtomically(
        lane, AddressOf(warp, o[1], lane) + instruction.offset, 4,
        /*write=*/true);
    if (at == nullptr) return;
    uint32_t old;
    std::memcpy(&old, at, 4);
    if (old == warp.Values<uint32_t>(o[2])[lane]) {
      std::memcpy(at, &warp.Values<uint32_t>(o[3])[lane], 4);
    }
    SetRegister(warp, o[0], lane, old);
  });
}

// cp.async [shared], [global], 16, n: n bytes, 16 or none, and zeros.
void CopyAhead(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  ForLanes(warp.mask(), [&](int lane) {
    const uint64_t to = AddressOf(warp, o[0], lane) + instruction.offset;
    const uint32_t whole = warp.Values<uint32_t>(o[2])[lane];
    const uint32_t bytes = warp.Values<uint32_t>(o[3])[lane];
    if (whole != 16 || (bytes != 0 && bytes != 16)) {
      warp.Fail(lane, absl::StrCat("copies ", bytes, " bytes of ", whole));
      return;
    }
    const uint8_t* from = nullptr;
    if (bytes > 0) {
      from = warp.Reach(Space::kGlobal, lane, AddressOf(warp, o[1], lane), 16,
                        /*write=*/false);
      if (from == nullptr) return;
    }
    if (warp.Reach(Space::kShared, lane, to, 16, /*write=*/true) == nullptr) {
      return;
    }
    warp.StartCopy(lane, to, from, bytes);
  });
}
void WaitForCopies(Warp& warp, const Instruction&) { warp.FinishCopies(); }
// The machine's memory has one order, in which all threads see it: a missing
// fence shows in the threads' knowledge (global_order.h).
void Fence(Warp& warp, const Instruction&) {
  ForLanes(warp.mask(), [&](int lane) { warp.Fence(lane); });
}

template <Space kSpace, class T>
void AddOfType(OperationTable* table, const std::string& space,
               const std::string& type, int address) {
  OperationTable& t = *table;
  // Registers have at least 2 bytes.
  const int wide = std::max<int>(sizeof(T), 2);
  const std::string ld = "ld" + space;
  t[ld + type] = {.execute = Load<kSpace, T, 1>,
                  .form = Form::kLoad,
                  .widths = {wide, address}};
  t[ld + ".v2" + type] = {.execute = Load<kSpace, T, 2>,
                          .form = Form::kLoad,
                          .widths = {wide, wide, address}};
  t[ld + ".v4" + type] = {.execute = Load<kSpace, T, 4>,
                          .form = Form::kLoad,
                          .widths = {wide, wide, wide, wide, address}};
  if (kSpace == Space::kParameter) return;
  const std::string st = "st" + space;
  t[st + type] = {.execute = Store<kSpace, T, 1>,
                  .form = Form::kStore,
                  .widths = {address, wide}};
  t[st + ".v2" + type] = {.execute = Store<kSpace, T, 2>,
                          .form = Form::kStore,
                          .widths = {address, wide, wide}};
  t[st + ".v4" + type] = {.execute = Store<kSpace, T, 4>,
                          .form = Form::kStore,
                          .widths = {address, wide, wide, wide, wide}};
}

template <Space kSpace>
void AddSpace(OperationTable* table, const std::string& space, int address) {
  for (const char* kind : {".u", ".b"}) {
    AddOfType<kSpace, uint8_t>(table, space, absl::StrCat(kind, 8), address);
    AddOfType<kSpace, uint16_t>(table, space, absl::StrCat(kind, 16), address);
    AddOfType<kSpace, uint32_t>(table, space, absl::StrCat(kind, 32), address);
    AddOfType<kSpace, uint64_t>(table, space, absl::StrCat(kind, 64), address);
  }
  AddOfType<kSpace, int8_t>(table, space, ".s8", address);
  AddOfType<kSpace, int32_t>(table, space, ".s32", address);
  AddOfType<kSpace, int64_t>(table, space, ".s64", address);
  AddOfType<kSpace, uint32_t>(table, space, ".f32", address);
  AddOfType<kSpace, uint64_t>(table, space, ".f64", address);
}

}  // namespace

void AddMemoryOperations(OperationTable* table) {
  OperationTable& t = *table;
  AddSpace<Space::kGlobal>(table, ".global", 8);
  // Without a space's name: our kernels mean global memory, and an address
  // elsewhere is an error.
  AddSpace<Space::kGlobal>(table, "", 8);
  AddSpace<Space::kShared>(table, ".shared", 4);
  AddSpace<Space::kParameter>(table, ".param", 8);
  t["atom.global.add.u32"] = {.execute = Atomic<uint32_t, Sum>,
                              .form = Form::kAtomic,
                              .widths = {4, 8, 4}};
  t["red.release.gpu.global.add.u32"] = {
      .execute = AddTo<true>, .form = Form::kAtomic, .widths = {8, 4}};
  t["red.relaxed.gpu.global.add.u32"] = {
      .execute = AddTo<false>, .form = Form::kAtomic, .widths = {8, 4}};
  t["ld.relaxed.gpu.global.u32"] = {
      .execute = LoadRelaxed, .form = Form::kLoad, .widths = {4, 8}};
  t["fence.acq_rel.gpu"] = {.execute = Fence};
  t["atom.global.add.u64"] = {.execute = Atomic<uint64_t, Sum>,
                              .form = Form::kAtomic,
                              .widths = {8, 8, 8}};
  t["atom.global.max.s64"] = {.execute = Atomic<int64_t, Largest>,
                              .form = Form::kAtomic,
                              .widths = {8, 8, 8}};
  t["atom.global.sys.cas.b32"] = {
      .execute = CompareAndSwap, .form = Form::kAtomic, .widths = {4, 8, 4, 4}};
  t["cp.async.cg.shared.global"] = {
      .execute = CopyAhead, .form = Form::kCopy, .widths = {4, 8, 4, 4}};
  t["cp.async.wait_all"] = {.execute = WaitForCopies};
}

}  // namespace castor::kernels::ptx
