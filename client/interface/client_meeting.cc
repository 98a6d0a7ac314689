// The ranks' meetings without a run.
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/interface/castor_client.h"
#include "client/interface/client_status.h"
#include "client/launched_ranks.h"

struct castor_meeting {
  std::unique_ptr<castor::RankGroup> ranks;
};

castor_status castor_meet(int port_is_stores, castor_meeting** meeting) {
  *meeting = nullptr;
  const auto launch =
      castor::LaunchOfClient(castor::CurrentEnvironment(), port_is_stores != 0);
  if (!launch.ok()) return castor::Tell(launch.status());
  auto ranks = castor::JoinLaunchedRanks(*launch);
  if (!ranks.ok()) return castor::Tell(ranks.status());
  *meeting = new castor_meeting{*std::move(ranks)};
  return CASTOR_OK;
}

int castor_meeting_rank(const castor_meeting* meeting) {
  return meeting->ranks->rank();
}

int castor_meeting_world_size(const castor_meeting* meeting) {
  return meeting->ranks->world_size();
}

castor_status castor_meeting_broadcast(castor_meeting* meeting,
                                       const char* what, int root, void* data,
                                       int64_t bytes) {
  return castor::Tell(
      castor::BroadcastBytes(*meeting->ranks, what, root,
                             absl::MakeSpan(static_cast<char*>(data), bytes)));
}

void castor_meeting_end(castor_meeting* meeting, const char* failure) {
  if (meeting == nullptr) return;
  if (failure != nullptr) meeting->ranks->Fail(absl::CancelledError(failure));
  delete meeting;
}
