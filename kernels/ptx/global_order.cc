#include "kernels/ptx/global_order.h"

#include <algorithm>
#include <utility>

namespace castor::kernels::ptx {
namespace {

uint64_t KeyOf(uint64_t block, uint64_t warp, uint64_t lane = kLanes) {
  return (block * 64 + warp) * 64 + lane;
}

void Learn(const Known& from, Known* to) {
  for (const auto& [key, time] : from) {
    WarpTime& known = (*to)[key];
    known = std::max(known, time);
  }
}

}  // namespace

GlobalOrder::Page& GlobalOrder::PageOf(uint64_t address) {
  const uint64_t number = address / kPageBytes;
  if (number != last_number_) {
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    last_number_ = number;
    last_page_ = page.get();
  }
  return *last_page_;
}

BlockOrder::BlockOrder(GlobalOrder* launch, int64_t block)
    : launch_(launch), block_(static_cast<uint32_t>(block)) {
  time_.fill(1);
  at_barrier_.fill(1);
}

bool BlockOrder::Touch(uint64_t address, int64_t bytes, int warp, int lane,
                       bool write, bool atomic) {
  if (bytes < GlobalOrder::kGrain) return true;
  GlobalOrder::Page& page = launch_->PageOf(address);
  const Visit mine = {block_, static_cast<uint64_t>(warp),
                      static_cast<uint64_t>(lane), uint64_t{atomic},
                      time_[warp]};
  // Accesses are aligned, so that none lies in two pages.
  const int64_t begin = static_cast<int64_t>(address) %
                        GlobalOrder::kPageBytes / GlobalOrder::kGrain;
  for (int64_t i = begin; i < begin + bytes / GlobalOrder::kGrain; ++i) {
    Visit& written = page.written[i];
    Visit& read = page.read[i];
    const bool both_atomic = atomic && written.atomic != 0;
    if (!both_atomic && !Knows(written, warp, lane)) return false;
    if (write) {
      if (!Knows(read, warp, lane)) return false;
      written = mine;
      read = {};
    } else if (!atomic) {
      NoteRead(&read, mine);
    }
  }
  return true;
}

bool BlockOrder::Knows(const Visit& visit, int warp, int lane) const {
  if (visit.time == 0) return true;
  if (visit.block == block_) {
    if (visit.warp == static_cast<uint64_t>(warp)) {
      return visit.time < time_[warp] ||
             visit.lane == static_cast<uint64_t>(lane);
    }
    return visit.time < (visit.warp == Visit::kSeveralWarps
                             ? barriers_
                             : at_barrier_[visit.warp]);
  }
  return visit.block != Visit::kSeveralBlocks &&
         (Knows(KeyOf(visit.block, visit.warp), visit.time, warp, lane) ||
          Knows(KeyOf(visit.block, visit.warp, visit.lane), visit.time, warp,
                lane));
}

bool BlockOrder::Knows(uint64_t key, WarpTime time, int warp, int lane) const {
  const auto in = [&](const Known& known) {
    const auto found = known.find(key);
    return found != known.end() && time < found->second;
  };
  if (in(known_) || in(known_to_warp_[warp])) return true;
  const auto of_lane = known_to_lane_.find(warp * kLanes + lane);
  return of_lane != known_to_lane_.end() && in(of_lane->second);
}

void BlockOrder::NoteRead(Visit* read, const Visit& mine) {
  if (*read == mine) return;
  // A thread that knows of this read knows of those that it knows of.
  if (Knows(*read, static_cast<int>(mine.warp), static_cast<int>(mine.lane))) {
    *read = mine;
  } else if (read->block != mine.block) {
    read->block = Visit::kSeveralBlocks;
  } else if (read->warp == mine.warp) {
    read->lane = Visit::kSeveralLanes;
  } else {
    read->warp = Visit::kSeveralWarps;
    read->time = barriers_;
  }
}

void BlockOrder::Look(uint64_t address, int warp, int lane) {
  const auto found = launch_->released_.find(address);
  if (found == launch_->released_.end()) return;
  Learn(found->second, &seen_[warp * kLanes + lane]);
}

void BlockOrder::Fence(int warp, int lane) {
  const auto seen = seen_.find(warp * kLanes + lane);
  if (seen == seen_.end()) return;
  Learn(seen->second, &known_to_lane_[seen->first]);
  seen_.erase(seen);
}

void BlockOrder::Release(uint64_t address, int warp, int lane) {
  Known& released = launch_->released_[address];
  Learn(known_, &released);
  Learn(known_to_warp_[warp], &released);
  const auto of_lane = known_to_lane_.find(warp * kLanes + lane);
  if (of_lane != known_to_lane_.end()) Learn(of_lane->second, &released);
  const auto release = [&](uint64_t key, WarpTime time) {
    WarpTime& known = released[key];
    known = std::max(known, time);
  };
  for (int i = 0; i < kMostWarps; ++i) {
    release(KeyOf(block_, i), i == warp ? time_[i] : at_barrier_[i]);
  }
  release(KeyOf(block_, Visit::kSeveralWarps), barriers_);
  release(KeyOf(block_, warp, lane), time_[warp] + 1);
}

void BlockOrder::MeetInWarp(int warp) {
  ++time_[warp];
  if (known_to_lane_.empty()) return;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto of_lane = known_to_lane_.find(warp * kLanes + lane);
    if (of_lane == known_to_lane_.end()) continue;
    Learn(of_lane->second, &known_to_warp_[warp]);
    known_to_lane_.erase(of_lane);
  }
}

void BlockOrder::Meet() {
  for (int warp = 0; warp < kMostWarps; ++warp) {
    MeetInWarp(warp);
    at_barrier_[warp] = time_[warp];
    if (known_to_warp_[warp].empty()) continue;
    Learn(known_to_warp_[warp], &known_);
    known_to_warp_[warp].clear();
  }
  ++barriers_;
}

}  // namespace castor::kernels::ptx
