#include "cli/train/rank_report.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/host_name.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"

namespace castor::cli {
namespace {

// The fixed part of what a rank sends; the seconds for each late rank follow
// it.
struct Row {
  int64_t device_peak_bytes;
  int64_t host_peak_bytes;
  int64_t sent_bytes_per_step;
  int64_t received_bytes_per_step;
  double wait_seconds;
  char host[64];
};

}  // namespace

RankFigures FiguresOf(int64_t rank, int64_t world_size,
                      const RunReport& report) {
  RankFigures figures = {.rank = rank,
                         .host = HostName(),
                         .device_peak_bytes = report.device_peak_bytes,
                         .host_peak_bytes = report.host_peak_bytes};
  figures.network_wait_seconds = report.steps.network_wait_seconds();
  figures.late_rank_seconds = report.steps.late_rank_seconds();
  figures.late_rank_seconds.resize(world_size);
  const SteadyFigures steady = report.steps.Steady();
  figures.sent_bytes_per_step = steady.sent_bytes;
  figures.received_bytes_per_step = steady.received_bytes;
  return figures;
}

absl::Status MergeReports(Communicator& ranks, RunReport* report) {
  const int world_size = ranks.world_size();
  const RankFigures own = FiguresOf(ranks.rank(), world_size, *report);
  const int64_t late_bytes = world_size * static_cast<int64_t>(sizeof(double));
  const int64_t bytes = static_cast<int64_t>(sizeof(Row)) + late_bytes;
  std::vector<char> all(world_size * bytes);
  Row row = {.device_peak_bytes = own.device_peak_bytes,
             .host_peak_bytes = own.host_peak_bytes,
             .sent_bytes_per_step = own.sent_bytes_per_step,
             .received_bytes_per_step = own.received_bytes_per_step,
             .wait_seconds = own.network_wait_seconds,
             .host = {}};
  std::memcpy(row.host, own.host.data(),
              std::min(own.host.size(), sizeof(row.host) - 1));
  char* const mine = all.data() + ranks.rank() * bytes;
  std::memcpy(mine, &row, sizeof(row));
  std::memcpy(mine + sizeof(row), own.late_rank_seconds.data(), late_bytes);
  CASTOR_RETURN_IF_ERROR(
      Await(ranks, ranks.AllGather("reports", 0, mine, all.data(), bytes)));

  report->world_size = world_size;
  report->ranks.clear();
  for (int rank = 0; rank < world_size; ++rank) {
    const char* const theirs = all.data() + rank * bytes;
    std::memcpy(&row, theirs, sizeof(row));
    row.host[sizeof(row.host) - 1] = '\0';
    RankFigures& figures = report->ranks.emplace_back(
        RankFigures{.rank = rank,
                    .host = row.host,
                    .device_peak_bytes = row.device_peak_bytes,
                    .host_peak_bytes = row.host_peak_bytes,
                    .sent_bytes_per_step = row.sent_bytes_per_step,
                    .received_bytes_per_step = row.received_bytes_per_step,
                    .network_wait_seconds = row.wait_seconds});
    figures.late_rank_seconds.resize(world_size);
    std::memcpy(figures.late_rank_seconds.data(), theirs + sizeof(row),
                late_bytes);
    report->device_peak_bytes =
        std::max(report->device_peak_bytes, row.device_peak_bytes);
    report->host_peak_bytes =
        std::max(report->host_peak_bytes, row.host_peak_bytes);
  }
  return absl::OkStatus();
}

}  // namespace castor::cli
