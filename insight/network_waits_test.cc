// Tests which rank or work a wait for the network is blamed on.
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "insight/peers.h"
#include "insight/trace_sketch.h"
#include "insight/trace_view.h"
#include "insight/wait_causes.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kNetwork = 4;

// One step of rank 0 of 3, from 0 to 100 ms.
class NetworkWaitsTest : public ::testing::Test {
 protected:
  NetworkWaitsTest() { BeRank(sketch_, 0); }

  static void BeRank(TraceSketch& sketch, int64_t rank) {
    RunRecord& run = *sketch.contents.run;
    run.streams.push_back("network");
    run.rank = rank;
    run.world_size = 3;
    run.host = absl::StrCat("node-", rank);
  }

  int64_t Work(int64_t stream, WorkKind kind, int64_t moment, int64_t chunk,
               int64_t start, int64_t end) {
    return sketch_.Work(stream, kind, step_, moment, chunk, start * kMs,
                        end * kMs);
  }
  // Adds a collective for `chunk`, to which rank `last` came last, at `ready`.
  int64_t Collective(WorkKind kind, int64_t chunk, int64_t start, int64_t ready,
                     int64_t end, int64_t last) {
    const int64_t count = Work(kNetwork, kind, 0, chunk, start, end);
    sketch_.contents.networks.push_back({.stream = kNetwork,
                                         .count = count,
                                         .sequence = count,
                                         .last_rank = last,
                                         .ready_ns = ready * kMs,
                                         .sent_bytes = 30,
                                         .received_bytes = 20});
    return count;
  }
  void Wait(int64_t stream, WorkKind kind, int64_t start, int64_t end,
            WaitRecord::Untils until) {
    sketch_.Wait(stream, kind, step_, 1, 1, start * kMs, end * kMs,
                 std::move(until));
  }
  // Operator 1 waits for chunk 1.
  void Compute(int64_t start, int64_t end, int64_t collective) {
    Wait(0, WorkKind::kOperator, start, end, {{kNetwork, collective}});
  }

  void Build(const std::vector<TraceContents>& others = {}) {
    sketch_.contents.results.push_back({.step = 1,
                                        .end_ns = 100 * kMs,
                                        .duration_ns = 100 * kMs,
                                        .network_sent_bytes = 60,
                                        .network_received_bytes = 40,
                                        .network_wait_ns = 30 * kMs});
    std::vector<TraceContents> ranks = {sketch_.contents};
    ranks.insert(ranks.end(), others.begin(), others.end());
    view_ = BuildRankViews(ranks, "x")[0];
  }
  // The waits' causes on a stream.
  std::vector<std::string> Causes(int64_t stream) const {
    std::vector<std::string> causes;
    for (const TraceView::WaitRow& row : view_.waits) {
      if (row.stream == stream) causes.push_back(row.cause);
    }
    return causes;
  }
  std::string NoteOfCompute() const {
    for (const TraceView::Span& span : view_.spans) {
      if (span.kind < 0 && span.stream == 0) return view_.strings[span.note];
    }
    return "no wait";
  }

  TraceSketch sketch_;
  const int64_t step_ = sketch_.AddStep(1, sketch_.AddPlan(), 0);
  TraceView view_;
};

TEST_F(NetworkWaitsTest, BlameTheRankThatCameLast) {
  Compute(10, 60, Collective(WorkKind::kGather, 1, 5, 50, 60, 2));
  Build();
  EXPECT_THAT(Causes(0), ::testing::ElementsAre(
                             "Rank 2 was late for what all ranks do together"));
  EXPECT_THAT(NoteOfCompute(),
              AllOf(HasSubstr("\"b/forward\" waited for rank 2, which came "
                              "45.0 ms later than this rank to the gather of "
                              "chunk 1"),
                    HasSubstr("Look at rank 2")));
  // It waited from 10 on.
  EXPECT_EQ(view_.steps[0].late_ns, 40 * kMs);
  EXPECT_EQ(view_.steps[0].network_ns, 10 * kMs);
  EXPECT_EQ(view_.steps[0].copy_ns, 0);
  EXPECT_EQ(view_.steps[0].sent_bytes, 60);
  EXPECT_EQ(view_.summary->late_ns, 40 * kMs);
  EXPECT_EQ(view_.summary->received_bytes, 40);
  EXPECT_THAT(view_.summary->advice,
              ::testing::Contains(HasSubstr("Rank 2 was late")));
  EXPECT_THAT(view_.summary->advice,
              ::testing::Contains(HasSubstr("40 % for ranks that were late")));
}

TEST_F(NetworkWaitsTest, ShowTheWaitForARankOnTheNetworksOwnLane) {
  Collective(WorkKind::kExchange, 1, 5, 50, 60, 2);
  Build();
  ASSERT_EQ(view_.spans.size(), 2u);
  const TraceView::Span& wait = view_.spans[0];
  EXPECT_EQ(wait.kind, -1);
  EXPECT_EQ(wait.stream, kNetwork);
  EXPECT_EQ(wait.late_rank, 2);
  EXPECT_EQ(wait.start_ns, 5 * kMs);
  EXPECT_EQ(wait.end_ns, 50 * kMs);
  EXPECT_EQ(view_.strings[wait.label], "wait for rank 2");
  EXPECT_THAT(view_.strings[wait.note],
              HasSubstr("Rank 2 came 45.0 ms later than this rank to the "
                        "exchange of the gradients of chunk 1"));
  const TraceView::Span& work = view_.spans[1];
  EXPECT_EQ(work.kind, static_cast<int64_t>(WorkKind::kExchange));
  EXPECT_EQ(work.start_ns, 50 * kMs);
  EXPECT_EQ(work.late_rank, -1);
  EXPECT_EQ(work.bytes, 20);
  EXPECT_EQ(view_.strings[work.label], "exchange gradients of chunk 1");
}

TEST_F(NetworkWaitsTest, BlameTheNetworkWhereAllRanksWereThere) {
  Collective(WorkKind::kGather, 0, 5, 6, 30, 1);
  Compute(20, 60, Collective(WorkKind::kGather, 1, 30, 30, 60, 0));
  Build();
  EXPECT_THAT(Causes(0), ::testing::ElementsAre(HasSubstr("The network:")));
  EXPECT_THAT(NoteOfCompute(), HasSubstr("what crossed the network before it"));
  EXPECT_EQ(view_.steps[0].network_ns, 40 * kMs);
  EXPECT_EQ(view_.steps[0].late_ns, 0);
}

TEST_F(NetworkWaitsTest, BlameWhatHeldTheNetworkUp) {
  // The gather needs the own shard on the device, whose copy takes 50.
  const int64_t fetch = Work(1, WorkKind::kFetch, 0, 1, 0, 50);
  Wait(kNetwork, WorkKind::kGather, 0, 50, {{1, fetch}});
  Compute(10, 60, Collective(WorkKind::kGather, 1, 50, 50, 60, 0));
  Build();
  EXPECT_THAT(Causes(0), ::testing::ElementsAre(HasSubstr("The bus")));
  EXPECT_EQ(view_.steps[0].copy_ns, 40 * kMs);
  EXPECT_EQ(view_.steps[0].network_ns, 10 * kMs);
  // The network's own wait is for the bus.
  EXPECT_THAT(Causes(kNetwork), Each(HasSubstr("The bus")));
}

TEST_F(NetworkWaitsTest, NameTheRankForSumsAndNormsToo) {
  Wait(3, WorkKind::kReduce, 0, 40,
       {{kNetwork, Collective(WorkKind::kExchange, 1, 0, 35, 40, 1)}});
  const int64_t norm = Collective(WorkKind::kClip, -1, 40, 75, 80, 2);
  Wait(3, WorkKind::kClip, 40, 80, {{kNetwork, norm}});
  const int64_t scale = Work(3, WorkKind::kClip, -1, -1, 80, 81);
  Wait(0, WorkKind::kUpdate, 45, 81, {{3, scale}});
  Build();
  EXPECT_THAT(Causes(3),
              ::testing::UnorderedElementsAre(HasSubstr("Rank 1 was late"),
                                              HasSubstr("Rank 2 was late")));
  EXPECT_THAT(Causes(0), ::testing::ElementsAre(HasSubstr("Rank 2 was late")));
}

TEST_F(NetworkWaitsTest, SayWhatTheLateRankDidWhereItsTraceIsThere) {
  TraceSketch late;
  BeRank(late, 2);
  const int64_t step = late.AddStep(1, late.AddPlan(), 0);
  late.Op(step, 0, 0, 10 * kMs);
  late.Op(step, 2, 10 * kMs, 49 * kMs);
  Compute(10, 60, Collective(WorkKind::kGather, 1, 5, 50, 60, 2));
  Build({late.contents});
  EXPECT_THAT(NoteOfCompute(), HasSubstr("Meanwhile it ran \"b/backward\"."));
}

TEST_F(NetworkWaitsTest, CountAShardWhereAGatherCompletesIt) {
  StepTrace& trace = sketch_.contents.step_traces[0];
  trace.chunks[1].shard_bytes = 700;
  const int64_t fetch = Work(1, WorkKind::kFetch, 0, 1, 0, 50);
  Wait(kNetwork, WorkKind::kGather, 0, 50, {{1, fetch}});
  Collective(WorkKind::kGather, 1, 50, 50, 60, 0);
  Work(1, WorkKind::kFetch, 4, 1, 60, 70);  // gradients that had left
  Build();
  std::vector<int64_t> bytes;
  for (const TraceView::Span& span : view_.spans) {
    if (span.kind == static_cast<int64_t>(WorkKind::kFetch)) {
      bytes.push_back(span.bytes);
    }
  }
  EXPECT_EQ(bytes, (std::vector<int64_t>{700, 2'000}));
}

TEST(Peers, PreferOperators) {
  TraceSketch sketch;
  sketch.contents.run->rank = 1;
  const int64_t step = sketch.AddStep(1, sketch.AddPlan(), 0);
  sketch.Work(3, WorkKind::kUpdate, step, 6, 0, 0, 100);
  sketch.Op(step, 2, 60, 90);
  const std::vector<TraceContents> ranks = {sketch.contents};
  const Peers peers(ranks);
  EXPECT_EQ(peers.Doing(1, 0, 50), "update chunk 0");
  EXPECT_EQ(peers.Doing(1, 0, 100), "\"b/backward\"");
  EXPECT_EQ(peers.Doing(1, 200, 300), "");
  EXPECT_EQ(peers.Doing(2, 0, 100), "");
  EXPECT_EQ(Peers().Doing(1, 0, 100), "");
}

}  // namespace
}  // namespace castor
