#include "insight/view_json.h"

#include "gtest/gtest.h"
#include "insight/trace_sketch.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

using Json = nlohmann::json;

Json ViewOf(const TraceContents& contents) {
  return Json::parse(PageJson(BuildTraceView(contents, "x.trace")))["views"][0];
}

TEST(ViewJson, HoldsAStep) {
  const Json view = ViewOf(OneStep().contents);
  EXPECT_EQ(view["version"], 1);
  EXPECT_EQ(view["source"], "x.trace");
  EXPECT_EQ(view["status"], "finished");
  EXPECT_EQ(view["run"]["device_budget_bytes"], 10'000);
  EXPECT_TRUE(view["run"]["host_budget_bytes"].is_null());  // unlimited
  EXPECT_EQ(view["streams"][3]["label"], "CPU optimizer");
  EXPECT_EQ(view["kinds"][2],
            Json({{"name", "fetch"}, {"color", "fetch"}, {"copies", true}}));
  EXPECT_EQ(view["programs"][0]["ops"]["writes"][2], Json({1}));
  EXPECT_EQ(view["programs"][0]["ops"]["writes"][1], Json::array());
  EXPECT_EQ(view["programs"][0]["chunks"][1]["uses"], Json({1, 2, 3, 7}));
  EXPECT_EQ(view["plans"][0]["predicted"]["step_ns"], 1'000);
  EXPECT_EQ(view["steps"][0]["copy_ns"], 200);
  EXPECT_EQ(view["results"]["loss"], Json({2.5}));
  EXPECT_EQ(view["spans"]["start"].size(), 17u);
  EXPECT_EQ(view["memory"]["bytes"][1], Json({100, 200, 300, 300, 100}));
  EXPECT_EQ(view["peak"]["op"], "b/backward");
  EXPECT_EQ(view["states"][5]["name"], "reducing");
  EXPECT_EQ(view["states"][5]["tier"], "host");
  EXPECT_EQ(view["tables"]["operators"]["mean_ns"][0], 100);
  EXPECT_EQ(view["tables"]["chunks"]["side"][0], "host");
  EXPECT_EQ(view["summary"]["step_ns"], 1'000);
  EXPECT_TRUE(view["refusal"].is_null());
}

TEST(ViewJson, HoldsChangesOfTheBudget) {
  TraceContents contents = OneStep().contents;
  contents.budgets = {{.time_ns = 7,
                       .step = 1,
                       .from_bytes = kUnlimitedBytes,
                       .to_bytes = 9'000,
                       .asker = BudgetAsker::kFollow}};
  EXPECT_EQ(ViewOf(contents)["budgets"], Json({{"time", {7}},
                                               {"step", {1}},
                                               {"from", {nullptr}},
                                               {"to", {9'000}},
                                               {"asked_by", {"follow"}}}));
}

TEST(ViewJson, HoldsATraceOfNothing) {
  const Json view = ViewOf(TraceContents());
  EXPECT_EQ(view["status"], "empty");
  EXPECT_TRUE(view["run"].is_null());
  EXPECT_TRUE(view["peak"].is_null());
  EXPECT_TRUE(view["summary"].is_null());
  EXPECT_EQ(view["spans"]["start"], Json::array());
  EXPECT_EQ(view["steps"], Json::array());
}

TEST(ViewJson, HoldsARefusal) {
  TraceContents contents = TraceSketch().contents;
  contents.refusal = RefusalRecord{
      "does not fit", "device", "a/forward", 100, 200, 300, kUnlimitedBytes};
  const Json view = ViewOf(contents);
  EXPECT_EQ(view["status"], "refused");
  EXPECT_EQ(view["message"], "does not fit");
  EXPECT_EQ(view["refusal"]["smallest_device_budget_bytes"], 300);
  EXPECT_TRUE(view["refusal"]["smallest_host_budget_bytes"].is_null());
  EXPECT_EQ(view["tables"]["operators"]["count"],
            Json({0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(ViewJson, SaysThatAFileWasCutOff) {
  TraceContents contents = OneStep().contents;
  contents.end.reset();
  contents.truncated = true;
  const Json view = ViewOf(contents);
  EXPECT_EQ(view["status"], "running or killed");
  EXPECT_EQ(view["truncated"], true);
  EXPECT_NE(view["message"], "");
}

TEST(PageJson, HoldsOneViewOrTwoAndTheirComparison) {
  const TraceView view = BuildTraceView(OneStep().contents, "x.trace");
  const Json one = Json::parse(PageJson(view));
  EXPECT_EQ(one["views"].size(), 1u);
  EXPECT_FALSE(one.contains("comparison"));
  const Json two = Json::parse(PageJson(view, view));
  EXPECT_EQ(two["views"].size(), 2u);
  EXPECT_EQ(two["comparison"]["rows"][0]["name"], "step time");
}

}  // namespace
}  // namespace castor
