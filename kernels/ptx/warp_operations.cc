// The operations that the lanes of a warp do together, and branches. Layouts
// are those of "Parallel Thread Execution ISA": shfl.sync, ldmatrix, and
// "Matrix Fragments for mma.m16n8k16 with floating point type".
#include <algorithm>
#include <cmath>

#include "base/dtype.h"
#include "kernels/ptx/operation_table.h"

namespace castor::kernels::ptx {
namespace {

enum class Shuffle { kUp, kDown, kButterfly, kIndex };

// shfl.sync d|p, a, b, c, members.
template <Shuffle kMode>
void ShuffleLanes(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  uint32_t a[kLanes];
  std::copy_n(warp.Values<uint32_t>(o[2]), kLanes, a);
  const uint32_t* b = warp.Values<uint32_t>(o[3]);
  const uint32_t* c = warp.Values<uint32_t>(o[4]);
  int source[kLanes];
  bool inside[kLanes];
  ForLanes(warp.mask(), [&](int lane) {
    const int by = static_cast<int>(b[lane] & 31);
    const int clamp = static_cast<int>(c[lane] & 31);
    const int segment = static_cast<int>(c[lane] >> 8 & 31);
    const int most = (lane & segment) | (clamp & ~segment);
    const int least = lane & segment;
    int j = 0;
    switch (kMode) {
      case Shuffle::kUp:
        j = lane - by;
        break;
      case Shuffle::kDown:
        j = lane + by;
        break;
      case Shuffle::kButterfly:
        j = lane ^ by;
        break;
      case Shuffle::kIndex:
        j = least | (by & ~segment);
        break;
    }
    inside[lane] = kMode == Shuffle::kUp ? j >= most : j <= most;
    source[lane] = inside[lane] ? j : lane;
    if ((warp.mask() >> source[lane] & 1) == 0) {
      warp.Fail(lane, "reads the register of a lane that is not there");
    }
  });
  if (warp.failed()) return;
  SetLanes(warp, warp.Values<uint32_t>(o[0]),
           [&](int lane) { return a[source[lane]]; });
  SetPredicate(warp, o[1], [&](int lane) { return inside[lane]; });
}

// ldmatrix of four 8 x 8 matrices of 16 bits. Lane 8 m + r has the address of
// row r of matrix m; lane l gets elements 2 (l % 4) and the next one of row
// l / 4, of the transposed matrices if kTranspose.
template <bool kTranspose>
void LoadMatrices(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const uint32_t* address = warp.Values<uint32_t>(o[4]);
  uint16_t element[4][8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint8_t* row = warp.Reach(
        Space::kShared, lane, uint64_t{address[lane]} + instruction.offset, 16,
        /*write=*/false);
    if (row == nullptr) return;
    std::memcpy(element[lane / 8][lane % 8], row, 16);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const int row = lane / 4;
    const int column = lane % 4 * 2;
    for (int m = 0; m < 4; ++m) {
      const uint16_t low =
          kTranspose ? element[m][column][row] : element[m][row][column];
      const uint16_t high = kTranspose ? element[m][column + 1][row]
                                       : element[m][row][column + 1];
      warp.Values<uint32_t>(o[m])[lane] = low | uint32_t{high} << 16;
    }
  }
}

float TowardsZero(double a) {
  const auto rounded = static_cast<float>(a);
  return std::abs(double{rounded}) > std::abs(a) ? std::nextafter(rounded, 0.0f)
                                                 : rounded;
}

// mma.m16n8k16: d = a b + c, a [16, 16] by rows, b [16, 8] by columns. With
// g = lane / 4 and t = lane % 4, register i of the lane holds
//   a: row g + 8 (i % 2), columns 2 t + 8 (i / 2) and the next one;
//   b: rows 2 t + 8 i and the next one, column g;
//   c, d: row g + 8 (i / 2), column 2 t + i % 2.
template <class T>
void MultiplyMatrices(Warp& warp, const Instruction& instruction) {
  const Operand* o = instruction.operands;
  const Operand* a_registers = o + 4;
  const Operand* b_registers = o + 8;
  const Operand* c_registers = o + 10;
  const auto half = [](uint32_t pair, int which) {
    T value;
    value.bits = static_cast<uint16_t>(pair >> (16 * which));
    return static_cast<float>(value);
  };
  float a[16][16], b[16][8], d[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    for (int which = 0; which < 2; ++which) {
      for (int i = 0; i < 4; ++i) {
        a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + which] =
            half(warp.Values<uint32_t>(a_registers[i])[lane], which);
      }
      for (int i = 0; i < 2; ++i) {
        b[2 * t + 8 * i + which][g] =
            half(warp.Values<uint32_t>(b_registers[i])[lane], which);
      }
    }
    for (int i = 0; i < 4; ++i) {
      d[g + 8 * (i / 2)][2 * t + i % 2] =
          warp.Values<float>(c_registers[i])[lane];
    }
  }
  for (int row = 0; row < 16; ++row) {
    double sums[8];
    std::copy_n(d[row], 8, sums);
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) {
        sums[column] += double{a[row][k]} * double{b[k][column]};
      }
    }
    for (int column = 0; column < 8; ++column) {
      d[row][column] = TowardsZero(sums[column]);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      warp.Values<float>(o[i])[lane] =
          d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
    }
  }
}

void MeetOfWarp(Warp& warp, const Instruction&) { warp.Barrier(); }

void Nothing(Warp&, const Instruction&) {}

}  // namespace

void AddWarpOperations(OperationTable* table) {
  OperationTable& t = *table;
  const std::vector<int> shuffle = {4, 1, 4, 4, 4, 4};
  const auto add_shuffle = [&](const char* name, Execute execute) {
    t[name] = {.execute = execute,
               .form = Form::kShuffle,
               .flow = Flow::kTogether,
               .widths = shuffle};
  };
  add_shuffle("shfl.sync.up.b32", ShuffleLanes<Shuffle::kUp>);
  add_shuffle("shfl.sync.down.b32", ShuffleLanes<Shuffle::kDown>);
  add_shuffle("shfl.sync.bfly.b32", ShuffleLanes<Shuffle::kButterfly>);
  add_shuffle("shfl.sync.idx.b32", ShuffleLanes<Shuffle::kIndex>);
  t["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] = {
      .execute = LoadMatrices<false>,
      .flow = Flow::kTogether,
      .widths = {4, 4, 4, 4, 4}};
  t["ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"] = {
      .execute = LoadMatrices<true>,
      .flow = Flow::kTogether,
      .widths = {4, 4, 4, 4, 4}};
  const std::vector<int> fourteen(14, 4);
  t["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"] = {
      .execute = MultiplyMatrices<Float16>,
      .flow = Flow::kTogether,
      .widths = fourteen};
  t["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] = {
      .execute = MultiplyMatrices<BFloat16>,
      .flow = Flow::kTogether,
      .widths = fourteen};
  t["bar.warp.sync"] = {
      .execute = MeetOfWarp, .flow = Flow::kTogether, .widths = {4}};
  t["bar.sync"] = {.execute = Nothing, .flow = Flow::kBarrier, .widths = {4}};
  t["bra"] = t["bra.uni"] = {
      .execute = Nothing, .form = Form::kBranch, .flow = Flow::kBranch};
  t["nanosleep.u32"] = {
      .execute = Nothing, .flow = Flow::kYield, .widths = {4}};
  t["ret"] = {.execute = Nothing, .flow = Flow::kExit};
}

}  // namespace castor::kernels::ptx
