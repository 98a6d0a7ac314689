#include "cli/live/dashboard.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/numbers.h"
#include "base/units.h"
#include "tracer/trace_names.h"
#include "viewer/page.h"

namespace castor::cli {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// Evaluations are rarer than steps, and may be dropped without changing a mean.
constexpr size_t kMaxValidations = 2048;

// A budget that follows a busy card changes often.
constexpr size_t kMaxBudgets = 256;

Json Budget(int64_t bytes) {
  if (bytes >= kUnlimitedBytes) return nullptr;
  return bytes;
}

double TokensPerSecond(const RunRecord& run, const LivePoint& point) {
  return point.seconds > 0
             ? static_cast<double>(run.tokens_per_step) / point.seconds
             : 0;
}

// One list per member.
Json Columns(const RunRecord& run, const std::vector<LivePoint>& points) {
  Json columns = Json::object();
  const auto column = [&](const char* name, auto value) {
    Json list = Json::array();
    for (const LivePoint& point : points) list.push_back(value(point));
    columns[name] = std::move(list);
  };
  column("step", [](const LivePoint& p) { return p.step; });
  column("steps", [](const LivePoint& p) { return p.steps; });
  column("loss", [](const LivePoint& p) { return p.loss; });
  column("seconds", [](const LivePoint& p) { return p.seconds; });
  column("stall_seconds", [](const LivePoint& p) { return p.stall_seconds; });
  column("h2d_bytes", [](const LivePoint& p) { return p.h2d_bytes; });
  column("d2h_bytes", [](const LivePoint& p) { return p.d2h_bytes; });
  column("learning_rate", [](const LivePoint& p) { return p.learning_rate; });
  column("device_budget_bytes",
         [](const LivePoint& p) { return Budget(p.device_budget_bytes); });
  column("device_bytes", [](const LivePoint& p) { return p.device_bytes; });
  column("device_peak_bytes",
         [](const LivePoint& p) { return p.device_peak_bytes; });
  column("host_bytes", [](const LivePoint& p) { return p.host_bytes; });
  column("warmup", [](const LivePoint& p) { return p.warmup; });
  column("tokens_per_second",
         [&](const LivePoint& p) { return TokensPerSecond(run, p); });
  return columns;
}

Json MemoryJson(const LiveMemory& memory) {
  Json categories = Json::array();
  for (int i = 0; i < kNumCategories; ++i) {
    categories.push_back(std::string(CategoryName(static_cast<Category>(i))));
  }
  return {{"categories", std::move(categories)},
          {"device", memory.device.bytes},
          {"host", memory.host.bytes},
          {"device_at_peak", memory.device_at_peak.bytes},
          {"host_at_peak", memory.host_at_peak.bytes},
          {"device_peak_bytes", memory.device_peak_bytes},
          {"host_peak_bytes", memory.host_peak_bytes}};
}

// The steps after which the budget changed.
Json BudgetsJson(const std::vector<BudgetRecord>& budgets) {
  Json step = Json::array(), from = Json::array(), to = Json::array();
  Json asked_by = Json::array();
  for (const BudgetRecord& budget : budgets) {
    step.push_back(budget.step);
    from.push_back(Budget(budget.from_bytes));
    to.push_back(Budget(budget.to_bytes));
    asked_by.push_back(
        std::string(trace_names::kAskers[static_cast<int>(budget.asker)]));
  }
  return {{"step", std::move(step)},
          {"from", std::move(from)},
          {"to", std::move(to)},
          {"asked_by", std::move(asked_by)}};
}

// The query's step; 0 where it is not given. False: not a number.
bool StepOf(const HttpQuery& query, const char* name, int64_t* step) {
  const auto found = query.find(name);
  *step = 0;
  return found == query.end() || absl::SimpleAtoi(found->second, step);
}

}  // namespace

Dashboard::Dashboard(const RunRecord& run, int64_t step)
    : run_(run),
      first_step_(step + 1),
      budget_bytes_(run.device_budget_bytes) {}

Dashboard::~Dashboard() = default;

absl::StatusOr<std::unique_ptr<Dashboard>> Dashboard::Start(
    int port, const RunRecord& run, int64_t step) {
  std::unique_ptr<Dashboard> dashboard(new Dashboard(run, step));
  const auto page =
      std::make_shared<const std::string>(std::string(DashboardPage()));
  auto server = LoopbackServer::Start(
      {.port = port},
      {{"/", [reply = PageReply(page)](const HttpQuery&) { return reply; }},
       {"/live.json", [raw = dashboard.get()](const HttpQuery& query) {
          return raw->Answer(query);
        }}});
  if (!server.ok()) return server.status();
  dashboard->server_ = *std::move(server);
  return dashboard;
}

void Dashboard::AddStep(const StepReport& step, const LiveMemory& memory) {
  LivePoint point = {.step = step.step,
                     .steps = 1,
                     .loss = step.loss,
                     .seconds = step.seconds,
                     .stall_seconds = step.stall_seconds,
                     .h2d_bytes = static_cast<double>(step.h2d_bytes),
                     .d2h_bytes = static_cast<double>(step.d2h_bytes),
                     .learning_rate = step.learning_rate,
                     .device_bytes = memory.device.Sum(),
                     .device_peak_bytes = step.device_peak_bytes,
                     .host_bytes = memory.host.Sum(),
                     .warmup = step.warmup};
  std::lock_guard<std::mutex> lock(mutex_);
  point.device_budget_bytes = budget_bytes_;
  history_.Add(point);
  memory_ = memory;
}

void Dashboard::AddBudget(const BudgetRecord& change) {
  std::lock_guard<std::mutex> lock(mutex_);
  budget_bytes_ = change.to_bytes;
  budgets_.push_back(change);
  if (budgets_.size() > kMaxBudgets) budgets_.erase(budgets_.begin());
}

void Dashboard::AddValidation(int64_t step, const LiveValidation& validation) {
  std::lock_guard<std::mutex> lock(mutex_);
  validations_.emplace_back(step, validation);
  if (validations_.size() < kMaxValidations) return;
  for (size_t i = 0; i < validations_.size() / 2; ++i) {
    validations_[i] = validations_[2 * i + 1];
  }
  validations_.resize(validations_.size() / 2);
}

void Dashboard::End(const std::string& state, const std::string& message) {
  bool watched;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    state_ = state;
    message_ = message;
    watched = asked_ + kLastWords > Clock::now();
  }
  if (watched) std::this_thread::sleep_for(kLastWords);
}

HttpReply Dashboard::Answer(const HttpQuery& query) {
  int64_t since = 0, validated = 0;
  if (!StepOf(query, "since", &since) ||
      !StepOf(query, "validated", &validated)) {
    return TextReply(400, "since and validated are steps\n");
  }
  std::vector<LivePoint> points;
  std::vector<std::pair<int64_t, LiveValidation>> validations;
  LivePoint latest;
  LiveMemory memory;
  int64_t budget_bytes;
  std::vector<BudgetRecord> budgets;
  Json answer;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    asked_ = Clock::now();
    const std::vector<LivePoint>& all = history_.points();
    points.assign(std::upper_bound(all.begin(), all.end(), since,
                                   [](int64_t step, const LivePoint& point) {
                                     return step < point.step;
                                   }),
                  all.end());
    for (const auto& validation : validations_) {
      if (validation.first > validated) validations.push_back(validation);
    }
    latest = history_.latest();
    memory = memory_;
    budget_bytes = budget_bytes_;
    budgets = budgets_;
    answer["every"] = history_.every();
    answer["state"] = state_;
    answer["message"] = message_;
  }
  answer["version"] = 1;
  answer["run"] = {{"title", run_.title},
                   {"device", run_.device},
                   {"policy", run_.policy},
                   {"device_budget_bytes", Budget(budget_bytes)},
                   {"host_budget_bytes", Budget(run_.host_budget_bytes)},
                   {"first_step", first_step_},
                   {"steps", run_.steps},
                   {"tokens_per_step", run_.tokens_per_step}};
  answer["points"] = Columns(run_, points);
  answer["latest"] =
      Columns(run_, latest.steps == 0 ? std::vector<LivePoint>{}
                                      : std::vector<LivePoint>{latest});
  Json steps = Json::array(), losses = Json::array();
  Json perplexities = Json::array(), accuracies = Json::array();
  for (const auto& [step, validation] : validations) {
    steps.push_back(step);
    losses.push_back(validation.loss);
    perplexities.push_back(validation.perplexity);
    accuracies.push_back(validation.accuracy);
  }
  answer["validation"] = {{"step", std::move(steps)},
                          {"loss", std::move(losses)},
                          {"perplexity", std::move(perplexities)},
                          {"token_accuracy", std::move(accuracies)}};
  answer["budgets"] = BudgetsJson(budgets);
  answer["memory"] = MemoryJson(memory);
  return JsonReply(std::make_shared<const std::string>(answer.dump(
      -1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)));
}

}  // namespace castor::cli
