#include "kernels/ptx/machine.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ptx/global_order.h"
#include "kernels/ptx/warp.h"

namespace castor::kernels::ptx {
namespace {

// A grid that needs more than this many instructions of warps is taken for one
// that does not end.
constexpr int64_t kMostInstructions = int64_t{1} << 28;
// When blocks have waited so often, and none went on, none will: all were
// chosen in between.
constexpr int64_t kMostWaits = 1000;

// The i-th of `count`.
int64_t InOrder(Order order, int64_t i, int64_t count) {
  switch (order) {
    case Order::kForward:
      return i;
    case Order::kBackward:
      return count - 1 - i;
    case Order::kInterleaved:
      break;
  }
  return i < count / 2 ? 2 * i + 1 : 2 * (i - count / 2);
}

// A warp and where its lanes are.
class RunningWarp {
 public:
  RunningWarp(const Program& program, BlockState& block, int index,
              const Launch& launch)
      : program_(program),
        warp_(program, block, index, static_cast<uint32_t>(launch.threads),
              static_cast<uint32_t>(launch.blocks)) {}

  void Reset(int64_t block) {
    warp_.Reset(static_cast<uint32_t>(block));
    at_.fill(0);
    live_ = kAllLanes;
    waiting_ = 0;
    barrier_ = -1;
  }

  bool done() const { return live_ == 0; }
  // The barrier at which all lanes stand; -1: none.
  int64_t barrier() const { return barrier_; }
  // The instruction that it is.
  int32_t barrier_at() const { return at_[0] - 1; }
  void LeaveBarrier() { barrier_ = -1; }
  // Returns true if the last Run ended where lanes wait for other blocks.
  bool yields() const { return yields_; }

  // Runs until all lanes have ended or stand at a barrier, some wait for other
  // blocks, or one fails.
  absl::Status Run(int64_t* instructions) {
    yields_ = false;
    while (live_ != 0 && barrier_ < 0 && !yields_) {
      if ((live_ & ~waiting_) == 0) {
        // All have come as far as they can: lanes that wait at one place go on
        // if they are all that there are.
        waiting_ = 0;
        forced_ = true;
      }
      const LaneMask runnable = live_ & ~waiting_;
      int32_t lowest = INT32_MAX;
      ForLanes(runnable,
               [&](int lane) { lowest = std::min(lowest, at_[lane]); });
      LaneMask active = 0;
      int32_t others = INT32_MAX;
      ForLanes(runnable, [&](int lane) {
        if (at_[lane] == lowest) {
          active |= LaneMask{1} << lane;
        } else {
          others = std::min(others, at_[lane]);
        }
      });
      if (absl::Status status = RunLanes(active, lowest, others, instructions);
          !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  // Lanes that are at `at`, until they part, meet others, wait or end. Others
  // are at `others` at the lowest.
  absl::Status RunLanes(LaneMask active, int32_t at, int32_t others,
                        int64_t* instructions) {
    while (at < others) {
      if (at >= static_cast<int32_t>(program_.code.size())) {
        return absl::InternalError("PTX: the program has no end");
      }
      if (++*instructions > kMostInstructions) {
        return absl::InternalError("PTX: the program does not seem to end");
      }
      const Instruction& instruction = program_.code[at];
      LaneMask mask = active;
      if (instruction.guard >= 0) {
        const LaneMask holds = warp_.Predicate(instruction.guard);
        mask &= instruction.guard_is_negated ? ~holds : holds;
      }
      switch (instruction.flow) {
        case Flow::kNext:
          if (mask != 0) {
            warp_.set_mask(mask);
            instruction.execute(warp_, instruction);
          }
          ++at;
          break;
        case Flow::kBranch:
          if (mask == active) {
            at = instruction.target;
          } else if (mask == 0) {
            ++at;
          } else {
            Place(mask, instruction.target);
            Place(active & ~mask, at + 1);
            forced_ = false;
            return absl::OkStatus();
          }
          break;
        case Flow::kExit:
          live_ &= ~mask;
          active &= ~mask;
          ++at;
          if (active == 0) return absl::OkStatus();
          break;
        case Flow::kYield:
          ++at;
          if (mask == 0) break;
          Place(active, at);
          yields_ = true;
          forced_ = false;
          return absl::OkStatus();
        case Flow::kBarrier:
        case Flow::kTogether: {
          if (mask == 0) {
            ++at;
            break;
          }
          LaneMask wanted = kAllLanes;
          if (instruction.members >= 0) {
            wanted = warp_.Values<LaneMask>(
                {instruction.members, 4})[std::countr_zero(mask)];
          }
          if ((mask & ~wanted) != 0) {
            return Wrong(instruction, "is executed by lanes outside its mask");
          }
          if (mask != wanted) {
            if (forced_ || (wanted & ~live_) != 0) {
              return Wrong(
                  instruction,
                  absl::StrCat("waits for lanes ", absl::Hex(wanted),
                               ", and only ", absl::Hex(mask), " come"));
            }
            Place(active, at);
            waiting_ |= active;
            return absl::OkStatus();
          }
          if (instruction.flow == Flow::kBarrier) {
            barrier_ = warp_.Values<uint32_t>(instruction.operands[0])[0];
            Place(active, at + 1);
            forced_ = false;
            return absl::OkStatus();
          }
          warp_.set_mask(mask);
          instruction.execute(warp_, instruction);
          ++at;
          break;
        }
      }
      forced_ = false;
      if (warp_.failed()) return Wrong(instruction, warp_.failure());
    }
    Place(active, at);
    return absl::OkStatus();
  }

  void Place(LaneMask lanes, int32_t at) {
    ForLanes(lanes, [&](int lane) { at_[lane] = at; });
  }
  absl::Status Wrong(const Instruction& instruction,
                     const std::string& what) const {
    return absl::InternalError(absl::StrCat("PTX: warp ", warp_.index(), ", ",
                                            instruction.text, ": ", what));
  }

  const Program& program_;
  Warp warp_;
  std::array<int32_t, kLanes> at_;  // each lane's next instruction
  LaneMask live_ = kAllLanes;       // have not ended
  LaneMask waiting_ = 0;            // for other lanes, at an instruction
  bool forced_ = false;             // nobody else can come any more
  bool yields_ = false;
  int64_t barrier_ = -1;
};

absl::Status CheckLaunch(const Program& program, const Launch& launch,
                         absl::Span<const uint8_t> parameters) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("PTX: launch of ", program.name, ": ", what));
  };
  if (launch.blocks < 1 || launch.blocks > GlobalOrder::kMostBlocks) {
    return wrong(absl::StrCat(launch.blocks, " blocks"));
  }
  if (launch.threads < 1 || launch.threads % kLanes != 0 ||
      launch.threads > 1024) {
    return wrong(absl::StrCat("blocks of ", launch.threads, " threads"));
  }
  if (program.most_threads > 0 && launch.threads > program.most_threads) {
    return wrong(absl::StrCat("blocks of ", launch.threads,
                              " threads, compiled for ", program.most_threads));
  }
  if (static_cast<int64_t>(parameters.size()) != program.parameter_bytes) {
    return wrong(absl::StrCat(parameters.size(), " bytes of parameters, not ",
                              program.parameter_bytes));
  }
  return absl::OkStatus();
}

// A block, and those that follow it in its place.
class RunningBlock {
 public:
  RunningBlock(const Program& program, const Launch& launch,
               absl::Span<const uint8_t> parameters, const GlobalMemory& memory,
               GlobalOrder* global_order, NeededBarriers* needed)
      : order_(launch.order),
        global_order_(global_order),
        shared_(launch.shared_bytes),
        state_{memory, parameters, shared_, launch.order != Order::kForward,
               std::nullopt} {
    if (needed != nullptr) shared_.set_needed(needed);
    for (int i = 0; i < launch.threads / kLanes; ++i) {
      warps_.push_back(
          std::make_unique<RunningWarp>(program, state_, i, launch));
    }
  }

  // As the `begun`-th of the launch.
  void Begin(int64_t block, int64_t begun) {
    block_ = block;
    begun_ = begun;
    running_ = true;
    shared_.Reset();
    state_.order.emplace(global_order_, block);
    for (const auto& warp : warps_) warp->Reset(block);
  }
  int64_t block() const { return block_; }
  int64_t begun() const { return begun_; }
  bool running() const { return running_; }
  // Returns true if the last Run ended where the block waits for other blocks.
  bool waits() const { return waits_; }

  // Runs all warps to their next barrier, or to where some wait for other
  // blocks.
  absl::Status Run(int64_t* instructions) {
    waits_ = false;
    const auto count = static_cast<int64_t>(warps_.size());
    for (int64_t i = 0; i < count; ++i) {
      RunningWarp& warp = *warps_[InOrder(order_, i, count)];
      absl::Status status = warp.Run(instructions);
      if (!status.ok()) return status;
      if (warp.yields()) waits_ = true;
    }
    if (waits_) return absl::OkStatus();
    const bool done = warps_[0]->done();
    for (const auto& warp : warps_) {
      if (warp->done() != done || warp->barrier() != warps_[0]->barrier()) {
        return absl::InternalError(
            "PTX: some warps stand at a barrier that others do not reach");
      }
    }
    if (done) {
      running_ = false;
      return absl::OkStatus();
    }
    int32_t at = warps_[0]->barrier_at();
    for (const auto& warp : warps_) {
      if (warp->barrier_at() != at) at = -1;
      warp->LeaveBarrier();
    }
    shared_.Barrier(at);
    state_.order->Meet();
    return absl::OkStatus();
  }

 private:
  const Order order_;
  GlobalOrder* const global_order_;
  SharedMemory shared_;
  BlockState state_;
  std::vector<std::unique_ptr<RunningWarp>> warps_;
  int64_t block_ = 0, begun_ = -1;
  bool running_ = false, waits_ = false;
};

// The slot of the block that goes on: often the one that began last, which so
// overtakes those that it may have to wait for.
size_t Next(const std::vector<std::unique_ptr<RunningBlock>>& running,
            Order order, std::minstd_rand& random) {
  size_t slot = random() % running.size();
  if (order == Order::kForward || random() % 4 == 0) return slot;
  for (size_t i = 0; i < running.size(); ++i) {
    if (running[i]->running() && running[i]->begun() > running[slot]->begun()) {
      slot = i;
    }
  }
  return slot;
}

}  // namespace

absl::Status Run(const Program& program, const Launch& launch,
                 absl::Span<const uint8_t> parameters,
                 const GlobalMemory& memory, NeededBarriers* needed) {
  if (absl::Status status = CheckLaunch(program, launch, parameters);
      !status.ok()) {
    return status;
  }
  if (needed != nullptr) needed->resize(program.code.size());
  GlobalOrder global_order;
  std::vector<std::unique_ptr<RunningBlock>> running;
  while (static_cast<int64_t>(running.size()) <
         std::min(launch.blocks, launch.blocks_at_once)) {
    running.push_back(std::make_unique<RunningBlock>(
        program, launch, parameters, memory, &global_order, needed));
  }
  std::minstd_rand random;
  int64_t instructions = 0, begun = 0, waits = 0;
  while (!running.empty()) {
    const size_t slot = Next(running, launch.order, random);
    RunningBlock& block = *running[slot];
    if (!block.running()) {
      if (begun == launch.blocks) {
        running.erase(running.begin() + static_cast<int64_t>(slot));
        continue;
      }
      block.Begin(InOrder(launch.order, begun, launch.blocks), begun);
      ++begun;
    }
    absl::Status status = block.Run(&instructions);
    waits = block.waits() ? waits + 1 : 0;
    if (status.ok() && waits > kMostWaits) {
      status = absl::InternalError("PTX: blocks wait, and none goes on");
    }
    if (!status.ok()) {
      return absl::Status(
          status.code(),
          absl::StrCat(status.message(), " (block ", block.block(), " of ",
                       program.name, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace castor::kernels::ptx
