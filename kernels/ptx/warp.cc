#include "kernels/ptx/warp.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace castor::kernels::ptx {

void SharedMemory::Reset() {
  std::fill(bytes_.begin(), bytes_.end(), uint8_t{0xff});
  Barrier(-1);
}

Warp::Warp(const Program& program, BlockState& block, int index,
           uint32_t threads, uint32_t blocks)
    : program_(program),
      block_(block),
      index_(index),
      registers_(program.register_bytes, 0xff) {
  for (const Constant& constant : program.constants) {
    const Operand operand = {constant.place, constant.bytes};
    switch (constant.bytes) {
      case 1:
        Predicate(constant.place) = constant.value != 0 ? kAllLanes : 0;
        break;
      case 2:
        std::fill_n(Values<uint16_t>(operand), kLanes,
                    static_cast<uint16_t>(constant.value));
        break;
      case 4:
        std::fill_n(Values<uint32_t>(operand), kLanes,
                    static_cast<uint32_t>(constant.value));
        break;
      default:
        std::fill_n(Values<uint64_t>(operand), kLanes, constant.value);
        break;
    }
  }
  const auto set = [&](int32_t place, uint32_t first, uint32_t step) {
    if (place < 0) return;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      Values<uint32_t>({place, 4})[lane] = first + lane * step;
    }
  };
  set(program.thread, static_cast<uint32_t>(index * kLanes), 1);
  set(program.lane, 0, 1);
  set(program.threads, threads, 0);
  set(program.blocks, blocks, 0);
}

void Warp::Reset(uint32_t block) {
  if (program_.block >= 0) {
    std::fill_n(Values<uint32_t>({program_.block, 4}), kLanes, block);
  }
}

uint8_t* Warp::Find(Space space, int lane, uint64_t address, int64_t bytes,
                    bool write) {
  const char* name = "global";
  int64_t size = -1;
  uint8_t* at = nullptr;
  switch (space) {
    case Space::kGlobal:
      if (block_.global.Contains(address, bytes)) {
        at = reinterpret_cast<uint8_t*>(address);
      }
      break;
    case Space::kShared:
      name = "shared";
      size = block_.shared.size();
      if (address <= static_cast<uint64_t>(size) &&
          static_cast<int64_t>(size - address) >= bytes) {
        at = block_.shared.at(address);
      }
      break;
    case Space::kParameter:
      name = "parameters'";
      size = static_cast<int64_t>(block_.parameters.size());
      if (address <= static_cast<uint64_t>(size) &&
          static_cast<int64_t>(size - address) >= bytes && !write) {
        at = const_cast<uint8_t*>(block_.parameters.data()) + address;
      }
      break;
  }
  if (at == nullptr) {
    Fail(lane, absl::StrCat(write ? "writes " : "reads ", bytes, " bytes at ",
                            address, ", which is not in ", name, " memory",
                            size < 0 ? std::string()
                                     : absl::StrCat(" of ", size, " bytes")));
    return nullptr;
  }
  // A division would take longer than all else here: sizes are powers of 2.
  if ((address & static_cast<uint64_t>(bytes - 1)) != 0) {
    Fail(lane, absl::StrCat("touches ", bytes, " bytes at ", address, " in ",
                            name, " memory, which is not a multiple"));
    return nullptr;
  }
  return at;
}

uint8_t* Warp::Reach(Space space, int lane, uint64_t address, int64_t bytes,
                     bool write) {
  uint8_t* const at = Find(space, lane, address, bytes, write);
  if (at == nullptr) return nullptr;
  if (space == Space::kShared &&
      !block_.shared.Touch(address, bytes, index_, lane, write)) {
    return Race(lane, "shared", address, bytes, write);
  }
  if (space == Space::kGlobal &&
      !block_.order->Touch(address, bytes, index_, lane, write,
                           /*atomic=*/false)) {
    return Race(lane, "global", address, bytes, write);
  }
  return at;
}

uint8_t* Warp::ReachAtomically(int lane, uint64_t address, int64_t bytes,
                               bool write) {
  uint8_t* const at = Find(Space::kGlobal, lane, address, bytes, write);
  if (at != nullptr && !block_.order->Touch(address, bytes, index_, lane, write,
                                            /*atomic=*/true)) {
    return Race(lane, "global", address, bytes, write);
  }
  return at;
}

uint8_t* Warp::Race(int lane, const char* name, uint64_t address, int64_t bytes,
                    bool write) {
  Fail(lane, absl::StrCat(
                 write ? "writes " : "reads ", bytes, " bytes at ", address,
                 " in ", name, " memory, which another thread has ",
                 write ? "touched" : "written", ", and nothing orders them"));
  return nullptr;
}

void Warp::StartCopy(int lane, uint64_t to, const uint8_t* from,
                     int64_t bytes) {
  copies_.push_back({lane, to, from, bytes});
  if (!block_.copies_land_late) {
    Land(copies_.back());
    copies_.pop_back();
  }
}

void Warp::FinishCopies() {
  std::erase_if(copies_, [&](const Copy& copy) {
    if ((mask_ >> copy.lane & 1) == 0) return false;
    Land(copy);
    return true;
  });
}

void Warp::Land(const Copy& copy) {
  uint8_t* to = Reach(Space::kShared, copy.lane, copy.to, 16, /*write=*/true);
  if (to == nullptr) return;
  std::memset(to, 0, 16);
  if (copy.bytes > 0) std::memcpy(to, copy.from, copy.bytes);
}

void Warp::Fail(int lane, const std::string& what) {
  if (failed()) return;
  failure_ = absl::StrCat("thread ", index_ * kLanes + lane, " ", what);
}

}  // namespace castor::kernels::ptx
