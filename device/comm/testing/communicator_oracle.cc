#include "device/comm/testing/communicator_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/with_type.h"

namespace castor {
namespace {

constexpr int64_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

// A buffer with something around it that must stay as it is, at an address that
// is a multiple of nothing much.
class Guarded {
 public:
  Guarded(const Bytes& content, int64_t alignment)
      : offset_(kGuard + alignment),
        size_(content.size()),
        memory_(size_ + 2 * kGuard + alignment, kGuardByte) {
    std::copy(content.begin(), content.end(), memory_.begin() + offset_);
  }
  std::byte* data() { return memory_.data() + offset_; }
  Bytes content() const {
    return Bytes(memory_.begin() + offset_, memory_.begin() + offset_ + size_);
  }
  bool intact() const {
    const auto guard = [](std::byte b) { return b == kGuardByte; };
    return std::all_of(memory_.begin(), memory_.begin() + offset_, guard) &&
           std::all_of(memory_.begin() + offset_ + size_, memory_.end(), guard);
  }

 private:
  int64_t offset_;
  int64_t size_;
  Bytes memory_;
};

template <typename T>
Bytes AsBytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// One collective under way: what it reads and writes, and what must be there.
struct Call {
  std::string name;
  std::vector<std::unique_ptr<Guarded>> inputs, outputs;
  std::vector<Bytes> unchanged, expected;

  std::byte* In(Bytes content, int64_t alignment) {
    inputs.push_back(std::make_unique<Guarded>(content, alignment));
    unchanged.push_back(std::move(content));
    return inputs.back()->data();
  }
  std::byte* Out(Bytes content, Bytes result, int64_t alignment) {
    outputs.push_back(std::make_unique<Guarded>(content, alignment));
    expected.push_back(std::move(result));
    return outputs.back()->data();
  }
  void Check() const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(inputs[i]->content() == unchanged[i]) << name;
      EXPECT_TRUE(inputs[i]->intact()) << name;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(outputs[i]->content() == expected[i]) << name;
      EXPECT_TRUE(outputs[i]->intact()) << name;
    }
  }
};

// Draws the same numbers on every rank.
class Sequence {
 public:
  Sequence(uint32_t seed, Communicator& comm)
      : random_(seed), comm_(comm), n_(comm.world_size()), me_(comm.rank()) {}

  absl::StatusOr<Fence> Next(Call* call) {
    input_ = random_();
    switch (random_() % 7) {
      case 0:
        return Gather(call);
      case 1:
        return Turn(call);
      case 2:
        return TurnBySizes(call);
      case 3:
        return Reduce(call);
      case 4:
        return AllReduce(call);
      case 5: {
        const int root = Draw(n_);
        const int64_t bytes = Size();
        call->name = "broadcast";
        std::byte* const data = call->Out(RandomBytes(bytes, Input(me_)),
                                          RandomBytes(bytes, Input(root)), 3);
        return comm_.Broadcast("random broadcast", 0, root, data, bytes);
      }
      default:
        call->name = "barrier";
        return comm_.Barrier("random barrier", 0);
    }
  }

 private:
  int64_t Draw(int64_t below) { return random_() % below; }
  int64_t Size() {
    const int64_t limit = int64_t{1} << Draw(18);
    return Draw(limit);
  }
  // The seed of the bytes that rank p has for rank q.
  uint32_t Input(int p, int q = 0) const { return input_ + 1000 * p + q; }

  absl::StatusOr<Fence> Gather(Call* call) {
    const int64_t bytes = Size();
    call->name = absl::StrCat("all-gather of ", bytes);
    Bytes all;
    for (int p = 0; p < n_; ++p) Append(RandomBytes(bytes, Input(p)), &all);
    const std::byte* const send =
        call->In(RandomBytes(bytes, Input(me_)), Draw(16));
    std::byte* const recv = call->Out(Bytes(n_ * bytes), all, Draw(16));
    return comm_.AllGather("random gather", 0, send, recv, bytes);
  }

  absl::StatusOr<Fence> Turn(Call* call) {
    const int64_t bytes = Size();
    call->name = absl::StrCat("all-to-all of ", bytes);
    Bytes mine, all;
    for (int p = 0; p < n_; ++p) {
      Append(RandomBytes(bytes, Input(me_, p)), &mine);
      Append(RandomBytes(bytes, Input(p, me_)), &all);
    }
    const std::byte* const send = call->In(mine, Draw(16));
    std::byte* const recv = call->Out(Bytes(all.size()), all, Draw(16));
    return comm_.AllToAll("random turn", 0, send, recv, bytes);
  }

  absl::StatusOr<Fence> TurnBySizes(Call* call) {
    std::vector<int64_t> sizes(n_ * n_), send_bytes, recv_bytes;
    for (int64_t& size : sizes) size = Draw(3) == 0 ? 0 : Size();
    Bytes mine, all;
    for (int p = 0; p < n_; ++p) {
      send_bytes.push_back(sizes[me_ * n_ + p]);
      recv_bytes.push_back(sizes[p * n_ + me_]);
      Append(RandomBytes(send_bytes[p], Input(me_, p)), &mine);
      Append(RandomBytes(recv_bytes[p], Input(p, me_)), &all);
    }
    call->name = "all-to-all by sizes";
    const std::byte* const send = call->In(mine, Draw(16));
    std::byte* const recv = call->Out(Bytes(all.size()), all, Draw(16));
    return comm_.AllToAll("random turn by sizes", 0, send, send_bytes, recv,
                          recv_bytes);
  }

  absl::StatusOr<Fence> Reduce(Call* call) {
    const DType dtype = kAllTypes[Draw(3)];
    const int64_t n = Size();
    const bool assign = Draw(2) == 0;
    const StreamId stream =
        Draw(2) == 0 ? StreamId::kCompute : StreamId::kHostCompute;
    call->name = absl::StrCat("reduce-scatter of ", n, " ", DTypeName(dtype));
    const Bytes before = RandomNumbers(DType::kFloat32, n * n_, Input(n_));
    std::vector<float> sum(n * n_);
    if (!sum.empty()) std::memcpy(sum.data(), before.data(), before.size());
    for (int p = 0; p < n_; ++p) {
      OracleAdd(dtype, RandomNumbers(dtype, n * n_, Input(p)), assign && p == 0,
                &sum);
    }
    const auto shard = [&](const Bytes& all) {
      return Bytes(all.begin() + me_ * n * 4, all.begin() + (me_ + 1) * n * 4);
    };
    const std::byte* const send =
        call->In(RandomNumbers(dtype, n * n_, Input(me_)), 2 * Draw(8));
    // The scratch holds the others' parts in the end.
    Bytes others;
    for (int p = 0; p < n_; ++p) {
      if (p == me_) continue;
      const Bytes row = RandomNumbers(dtype, n * n_, Input(p));
      const int64_t bytes = n * SizeOf(dtype);
      others.insert(others.end(), row.begin() + me_ * bytes,
                    row.begin() + (me_ + 1) * bytes);
    }
    std::byte* const parts =
        call->Out(Bytes(others.size()), others, 2 * Draw(8));
    std::byte* const out =
        call->Out(shard(before), shard(AsBytes(sum)), 4 * Draw(4));
    return comm_.ReduceScatter("random reduce", 0, dtype, send, parts,
                               reinterpret_cast<float*>(out), n, assign,
                               stream);
  }

  absl::StatusOr<Fence> AllReduce(Call* call) {
    const int64_t n = Draw(100);
    const ReduceOp op = Draw(2) == 0   ? ReduceOp::kSum
                        : Draw(2) == 0 ? ReduceOp::kMin
                                       : ReduceOp::kMax;
    call->name = absl::StrCat("all-reduce of ", n);
    std::vector<int64_t> mine(n), result(n);
    for (int p = 0; p < n_; ++p) {
      std::vector<int64_t> values(n);
      const Bytes bytes = RandomBytes(n * 8, Input(p));
      if (n > 0) std::memcpy(values.data(), bytes.data(), n * 8);
      // A quarter of the range: four of them fit.
      for (int64_t& value : values) value >>= 3;
      if (p == me_) mine = values;
      for (int64_t i = 0; i < n; ++i) {
        result[i] = p == 0                 ? values[i]
                    : op == ReduceOp::kSum ? result[i] + values[i]
                    : op == ReduceOp::kMin ? std::min(result[i], values[i])
                                           : std::max(result[i], values[i]);
      }
    }
    std::byte* const data = call->Out(AsBytes(mine), AsBytes(result), 0);
    return comm_.AllReduce("random all-reduce", 0, op,
                           absl::MakeSpan(reinterpret_cast<int64_t*>(data), n));
  }

  std::mt19937 random_;
  Communicator& comm_;
  const int n_;
  const int me_;
  uint32_t input_ = 0;
};

}  // namespace

Bytes RandomBytes(int64_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes result(bytes);
  for (std::byte& b : result) b = static_cast<std::byte>(random());
  return result;
}

Bytes RandomNumbers(DType dtype, int64_t elements, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes result(elements * SizeOf(dtype));
  for (int64_t i = 0; i < elements; ++i) {
    const float mantissa =
        static_cast<float>(static_cast<int32_t>(random())) / 65536.0f;
    // In fp16 from 32768 down to where it has few bits left.
    const int least = dtype == DType::kFloat16 ? -23 : 0;
    const float value =
        std::ldexp(mantissa, least + static_cast<int>(random() % 24));
    WithType(dtype, [&]<class T>(T) {
      const T rounded(value);
      std::memcpy(result.data() + i * sizeof(T), &rounded, sizeof(T));
    });
  }
  return result;
}

void Append(const Bytes& part, Bytes* all) {
  all->insert(all->end(), part.begin(), part.end());
}

void OracleAdd(DType dtype, const Bytes& part, bool assign,
               std::vector<float>* sum) {
  for (size_t i = 0; i < sum->size(); ++i) {
    const float value = WithType(dtype, [&]<class T>(T element) {
      std::memcpy(&element, part.data() + i * sizeof(T), sizeof(T));
      return static_cast<float>(element);
    });
    (*sum)[i] = assign ? value : (*sum)[i] + value;
  }
}

void RunRandomSequence(uint32_t seed, int length, Communicator& comm) {
  Sequence sequence(seed, comm);
  std::mt19937 random(seed + 1);
  std::vector<std::unique_ptr<Call>> calls;
  Fence all;
  for (int i = 0; i < length; ++i) {
    calls.push_back(std::make_unique<Call>());
    const absl::StatusOr<Fence> fence = sequence.Next(calls.back().get());
    EXPECT_TRUE(fence.ok()) << fence.status();
    if (!fence.ok()) return;
    all.Add(*fence);
    if (i + 1 < length && random() % 4 != 0) continue;
    const absl::Status status = comm.device().Synchronize(all);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return;
    for (const auto& call : calls) call->Check();
    calls.clear();
  }
}

}  // namespace castor
