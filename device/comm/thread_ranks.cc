#include "device/comm/thread_ranks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "device/comm/exchange_communicator.h"

namespace castor {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)), rank_(rank), self_(*group_->ranks_[rank]) {}

  int rank() const override { return rank_; }
  int world_size() const override { return group_->world_size(); }

  absl::Status Send(int peer, Lane lane, const void* data, int64_t bytes,
                    int64_t token) override {
    std::unique_lock<std::mutex> lock(group_->mutex_);
    const RankFaults faults = self_.faults;
    if (faults.delay_ns > 0) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::nanoseconds(faults.delay_ns));
      lock.lock();
    }
    const int64_t count = self_.messages_sent++;
    if (faults.die_after >= 0 && count >= faults.die_after) {
      group_->KillLocked(rank_);
    }
    if (absl::Status failure = group_->FailureOf(rank_); !failure.ok()) {
      return failure;
    }
    if (faults.lose_after >= 0 && count >= faults.lose_after) {
      return absl::OkStatus();
    }
    group_->mailbox(rank_, peer, lane)
        .sent.push_back({static_cast<const std::byte*>(data), bytes, token});
    group_->ranks_[peer]->news.notify_one();
    return absl::OkStatus();
  }

  absl::Status Receive(int peer, Lane lane, void* data, int64_t bytes,
                       int64_t token) override {
    std::lock_guard<std::mutex> lock(group_->mutex_);
    group_->mailbox(peer, rank_, lane)
        .wanted.push_back({static_cast<std::byte*>(data), bytes, token});
    return absl::OkStatus();
  }

  absl::Status Poll(int64_t wait_ns, bool hot,
                    std::vector<int64_t>* done) override {
    std::unique_lock<std::mutex> lock(group_->mutex_);
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(wait_ns);
    while (true) {
      absl::Status failure = group_->FailureOf(rank_);
      if (!failure.ok()) return failure;
      failure = TakeMessages(lock);
      if (!failure.ok()) return failure;
      if (!self_.done.empty()) {
        done->insert(done->end(), self_.done.begin(), self_.done.end());
        self_.done.clear();
        return absl::OkStatus();
      }
      if (wait_ns <= 0 || std::chrono::steady_clock::now() >= until) {
        return absl::OkStatus();
      }
      self_.news.wait_until(lock, until);
    }
  }

  void Abandon() override {
    std::unique_lock<std::mutex> lock(group_->mutex_);
    for (int p = 0; p < world_size(); ++p) {
      for (const Lane lane : {Lane::kHeader, Lane::kPayload}) {
        group_->mailbox(rank_, p, lane).sent.clear();
        group_->mailbox(p, rank_, lane).wanted.clear();
      }
    }
    self_.news.wait(lock, [&] { return self_.copies == 0; });
    self_.done.clear();
  }

  void Announce(const absl::Status& reason) override {
    std::lock_guard<std::mutex> lock(group_->mutex_);
    // Nobody hears a dead rank.
    if (!self_.dead) group_->FailLocked(reason);
  }

  absl::Status Failure() const override {
    std::lock_guard<std::mutex> lock(group_->mutex_);
    return group_->FailureOf(rank_);
  }

  void Close(bool) override {}

 private:
  // Matches what others sent with what this rank wants, and copies, without the
  // lock.
  absl::Status TakeMessages(std::unique_lock<std::mutex>& lock) {
    for (int p = 0; p < world_size(); ++p) {
      if (p == rank_) continue;
      for (const Lane lane : {Lane::kHeader, Lane::kPayload}) {
        ThreadGroup::Mailbox& box = group_->mailbox(p, rank_, lane);
        while (!box.sent.empty() && !box.wanted.empty()) {
          const ThreadGroup::Message message = box.sent.front();
          const ThreadGroup::Wanted wanted = box.wanted.front();
          box.sent.pop_front();
          box.wanted.pop_front();
          if (message.bytes != wanted.bytes) {
            return absl::InternalError(absl::StrCat(
                "a message of ", message.bytes, " bytes from rank ", p,
                " where ", wanted.bytes, " are due"));
          }
          ThreadGroup::Rank& sender = *group_->ranks_[p];
          ++sender.copies;
          lock.unlock();
          std::memcpy(wanted.data, message.data, message.bytes);
          lock.lock();
          --sender.copies;
          sender.done.push_back(message.token);
          sender.news.notify_one();
          self_.done.push_back(wanted.token);
        }
      }
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  ThreadGroup::Rank& self_;
};

std::shared_ptr<ThreadGroup> ThreadGroup::Create(int world_size) {
  CASTOR_CHECK(world_size >= 1);
  return std::shared_ptr<ThreadGroup>(new ThreadGroup(world_size));
}

ThreadGroup::ThreadGroup(int world_size) {
  for (int i = 0; i < world_size; ++i) {
    ranks_.push_back(std::make_unique<Rank>());
  }
  mailboxes_.resize(world_size * world_size * 2);
}

ThreadGroup::Mailbox& ThreadGroup::mailbox(int from, int to, Lane lane) {
  return mailboxes_[(from * world_size() + to) * 2 + static_cast<int>(lane)];
}

void ThreadGroup::SetFaults(int rank, const RankFaults& faults) {
  std::lock_guard<std::mutex> lock(mutex_);
  ranks_[rank]->faults = faults;
}

void ThreadGroup::Kill(int rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  KillLocked(rank);
}

void ThreadGroup::KillLocked(int rank) {
  ranks_[rank]->dead = true;
  FailLocked(absl::UnavailableError(absl::StrCat("rank ", rank, " died")));
}

void ThreadGroup::FailLocked(const absl::Status& reason) {
  if (failure_.ok()) failure_ = reason;
  for (auto& rank : ranks_) rank->news.notify_all();
}

absl::Status ThreadGroup::FailureOf(int rank) const {
  if (ranks_[rank]->dead) {
    return absl::UnavailableError(
        absl::StrCat("rank ", rank, " was killed (injected)"));
  }
  return failure_;
}

std::unique_ptr<Transport> ThreadGroup::NewTransport(int rank) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    CASTOR_CHECK(rank >= 0 && rank < world_size());
    CASTOR_CHECK(!std::exchange(ranks_[rank]->taken, true));
  }
  return std::make_unique<ThreadTransport>(shared_from_this(), rank);
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeThreadRank(
    std::shared_ptr<ThreadGroup> group, int rank, Device* device,
    const CommunicatorOptions& options,
    std::unique_ptr<DeviceParts> gpu_parts) {
  return ExchangeCommunicator::Create(device, group->NewTransport(rank),
                                      options, std::move(gpu_parts));
}

}  // namespace castor
