#include "device/cuda/nccl/fake_nccl.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/cuda/fake_api.h"

namespace castor::nccl {
namespace {

constexpr auto kLook = std::chrono::milliseconds(1);

}  // namespace

FakeNccl::~FakeNccl() { CASTOR_CHECK(live_.load() == 0); }

absl::StatusOr<std::string> FakeNccl::NewId() {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string id = absl::StrCat("id ", ++ids_);
  worlds_[id] = std::make_shared<World>();
  return id;
}

absl::StatusOr<Api::Group> FakeNccl::Join(
    const std::string& id, int rank, int world_size,
    absl::FunctionRef<absl::Status()> give_up) {
  std::shared_ptr<World> world;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = worlds_.find(id);
    CASTOR_CHECK(it != worlds_.end());
    world = it->second;
  }
  std::unique_lock<std::mutex> lock(world->mutex);
  ++world->joined;
  world->moves.resize(world_size);
  world->changed.notify_all();
  while (world->joined < world_size) {
    CASTOR_RETURN_IF_ERROR(give_up());
    world->changed.wait_for(lock, kLook);
  }
  ++live_;
  return new Member{.world = world,
                    .rank = rank,
                    .aborted = std::make_shared<std::atomic<bool>>(false)};
}

absl::Status FakeNccl::Move(Group group, Stream stream,
                            absl::Span<const DeviceParts::Part> sends,
                            absl::Span<const DeviceParts::Part> receives,
                            absl::FunctionRef<absl::Status()> give_up) {
  const auto& member = *static_cast<const Member*>(group);
  if (moves_meet_) {
    World& world = *member.world;
    std::unique_lock<std::mutex> lock(world.mutex);
    const int64_t own = ++world.moves[member.rank];
    world.changed.notify_all();
    while (*std::min_element(world.moves.begin(), world.moves.end()) < own) {
      CASTOR_RETURN_IF_ERROR(give_up());
      world.changed.wait_for(lock, kLook);
    }
  }
  cuda::FakeApi::Launch(
      stream,
      [this, world = member.world, me = member.rank, aborted = member.aborted,
       sends = std::vector<DeviceParts::Part>(sends.begin(), sends.end()),
       receives =
           std::vector<DeviceParts::Part>(receives.begin(), receives.end())] {
        std::unique_lock<std::mutex> lock(world->mutex);
        std::vector<std::shared_ptr<Offer>> own;
        // Nobody takes from memory of a rank that has gone.
        const auto withdraw = [&] {
          for (const DeviceParts::Part& part : sends) {
            world->offers.erase({me, part.peer});
          }
        };
        for (const DeviceParts::Part& part : sends) {
          own.push_back(std::make_shared<Offer>(Offer{part.data, part.bytes}));
          world->offers[{me, part.peer}].push_back(own.back());
        }
        world->changed.notify_all();
        for (const DeviceParts::Part& part : receives) {
          auto& offers = world->offers[{part.peer, me}];
          while (offers.empty()) {
            if (aborted->load()) return withdraw();
            world->changed.wait_for(lock, kLook);
          }
          Offer& offer = *offers.front();
          CASTOR_CHECK(offer.bytes == part.bytes);
          std::memcpy(part.data, offer.data, part.bytes);
          moved_bytes_ += part.peer == me ? 0 : part.bytes;
          offer.taken = true;
          offers.pop_front();
          world->changed.notify_all();
        }
        for (const std::shared_ptr<Offer>& offer : own) {
          while (!offer->taken) {
            if (aborted->load()) return withdraw();
            world->changed.wait_for(lock, kLook);
          }
        }
      });
  return absl::OkStatus();
}

absl::Status FakeNccl::Health(Group) {
  return broken_.load() ? absl::InternalError(
                              "NCCL: a collective in the background: unhandled "
                              "system error")
                        : absl::OkStatus();
}

void FakeNccl::Abort(Group group) {
  auto* const member = static_cast<Member*>(group);
  member->aborted->store(true);
  delete member;
  --live_;
}

}  // namespace castor::nccl
