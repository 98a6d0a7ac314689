#include "cli/plan/search/candidates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/plan/advice/change.h"
#include "cli/plan/planned_run.h"
#include "memory/plan/policy/policies.h"
#include "run/optim/optimizers.h"

namespace castor::cli {
namespace {

struct Card {
  std::string gpu;
  double price = 0;
};

absl::StatusOr<std::vector<Card>> CardsOf(const PlanArguments& arguments) {
  std::vector<Card> cards;
  for (const absl::string_view gpu :
       absl::StrSplit(arguments.machine.gpu, ',')) {
    for (const Card& other : cards) {
      if (other.gpu == gpu) {
        return absl::InvalidArgumentError(
            absl::StrCat("--gpu: \"", gpu, "\" is there twice"));
      }
    }
    cards.push_back({.gpu = std::string(gpu)});
  }
  if (arguments.price.empty()) return cards;
  const std::vector<std::string> prices = absl::StrSplit(arguments.price, ',');
  if (prices.size() != cards.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--price: there are ", prices.size(), " prices for ",
                     cards.size(), " of --gpu: give one for each"));
  }
  for (size_t i = 0; i < cards.size(); ++i) {
    if (!absl::SimpleAtod(prices[i], &cards[i].price) ||
        !(cards[i].price > 0) || cards[i].price > 1e9) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--price: \"", prices[i],
          "\" is not what an hour of a GPU costs, a number above 0"));
    }
  }
  return cards;
}

// Powers of two up to `most`, and `most`.
std::vector<int> UpTo(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

// Some GPUs of one machine, then all of several machines.
std::vector<MachineArguments> RanksOf(const MachineArguments& given) {
  if (given.world_size() == 0) return {given};
  std::vector<MachineArguments> all;
  const auto add = [&](int nodes, int gpus) {
    MachineArguments& machine = all.emplace_back(given);
    machine.nodes = nodes;
    machine.gpus_per_node = gpus;
  };
  const int gpus = std::max(1, given.gpus_per_node);
  for (const int count : UpTo(gpus)) add(1, count);
  for (const int nodes : UpTo(std::max(1, given.nodes))) {
    if (nodes > 1) add(nodes, gpus);
  }
  return all;
}

// Returns the formats to try, first those that were asked for.
std::vector<StateFormats> FormatsOf(const PlanArguments& arguments,
                                    const Config& asked) {
  const Optimizer& optimizer = *asked.optimizer.rule;
  std::vector<StateFormats> formats = {optimizer.formats()};
  const auto sets = [&](const std::string& key) {
    return Sets(arguments.overrides, key);
  };
  // The type may say the formats.
  if (sets("optimizer") || sets("optimizer.type") ||
      sets("optimizer.state_format")) {
    return formats;
  }
  const bool master_is_set = sets("optimizer.state_format.master");
  const bool moments_are_set = sets("optimizer.state_format.moments");
  // Smaller moments come first, then the smallest with smaller masters.
  for (StateFormats smaller : SmallerFormats(optimizer, asked.dtype())) {
    const bool smaller_master = smaller.master != formats[0].master;
    if (smaller_master ? master_is_set : moments_are_set) continue;
    if (moments_are_set) smaller.moments = formats[0].moments;
    formats.push_back(smaller);
  }
  return formats;
}

}  // namespace

void AddSetting(const std::string& setting, Candidate* candidate) {
  candidate->settings.push_back(setting);
  candidate->arguments.overrides.push_back(setting);
}

absl::StatusOr<Candidates> CandidatesOf(const PlanArguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Card> cards, CardsOf(arguments));
  Candidates all;
  {
    PlanArguments one = arguments;
    one.machine.gpu = cards.front().gpu;
    CASTOR_ASSIGN_OR_RETURN(PlannedRun run, ReadRun(one));
    all.asked = std::move(run.asked);
  }
  const Config& asked = all.asked;
  const bool micro_is_set =
      Sets(arguments.overrides, "train_micro_batch_size_per_gpu");
  const bool steps_are_set =
      Sets(arguments.overrides, "gradient_accumulation_steps");
  const bool blocks_are_set =
      Sets(arguments.overrides, "memory.activation_checkpointing");
  const std::vector<StateFormats> formats = FormatsOf(arguments, asked);
  all.searches_policy = !Sets(arguments.overrides, "memory.placement_policy");
  all.searches_chunks = !Sets(arguments.overrides, "memory.chunk_size");
  for (const Card& card : cards) {
    for (const MachineArguments& machine : RanksOf(arguments.machine)) {
      const int64_t ranks = machine.world_size() > 0 ? machine.world_size()
                                                     : arguments.world_size;
      const int64_t batch = asked.train_batch_size / ranks;
      if (batch * ranks != asked.train_batch_size) continue;
      for (int64_t micro = batch; micro > 0; --micro) {
        if (batch % micro != 0 ||
            (micro_is_set && micro != asked.train_micro_batch_size_per_gpu) ||
            (steps_are_set &&
             batch / micro != asked.gradient_accumulation_steps)) {
          continue;
        }
        for (const StateFormats& format : formats) {
          CandidateRow& row = all.rows.emplace_back();
          row.gpu = card.gpu;
          row.price = card.price;
          row.ranks = ranks;
          row.nodes = machine.nodes;
          row.gpus_per_node = machine.gpus_per_node;
          row.micro_batch = micro;
          row.accumulation = batch / micro;
          row.formats = format;
          row.other_results = format != formats.front();
          PlanArguments& its = row.first.arguments;
          its = arguments;
          its.search = false;
          its.machine = machine;
          its.machine.gpu = card.gpu;
          its.world_size = static_cast<int>(ranks);
          AddSetting(absl::StrCat("train_batch_size=", asked.train_batch_size),
                     &row.first);
          for (const std::string& setting :
               MicroBatchSettings(micro, batch / micro)) {
            AddSetting(setting, &row.first);
          }
          if (!blocks_are_set) {
            AddSetting("memory.activation_checkpointing=auto", &row.first);
          }
          for (const std::string& setting :
               FormatSettings(formats.front(), format)) {
            AddSetting(setting, &row.first);
          }
        }
      }
    }
  }
  if (all.rows.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--search: train_batch_size ", asked.train_batch_size,
        " cannot be divided among the ranks, in the micro batches that --set "
        "gives: give another"));
  }
  if (!micro_is_set && !steps_are_set) {
    all.searched.push_back("micro batch and accumulation");
  }
  if (!blocks_are_set) all.searched.push_back("activations");
  if (formats.size() > 1) all.searched.push_back("formats of states");
  if (all.searches_policy) all.searched.push_back("placement policy");
  if (all.searches_chunks) all.searched.push_back("chunk size");
  if (RanksOf(arguments.machine).size() > 1) all.searched.push_back("ranks");
  if (cards.size() > 1) all.searched.push_back("card");
  return all;
}

std::vector<Candidate> OthersOf(const CandidateRow& row,
                                const Candidates& candidates,
                                int64_t chunk_bytes) {
  // A chunk has a tile of each rank at least.
  constexpr int64_t kLeastShard = 1 << 10;
  std::vector<Candidate> others;
  const auto add = [&](const std::string& setting) {
    AddSetting(setting, &others.emplace_back(row.first));
  };
  if (candidates.searches_chunks) {
    for (const int64_t bytes : {chunk_bytes / 4, 4 * chunk_bytes}) {
      if (bytes / row.ranks < kLeastShard) continue;
      add(absl::StrCat("memory.chunk_size=", bytes));
    }
  }
  if (candidates.searches_policy) {
    const PlacementPolicy* const first =
        candidates.asked.memory.placement_policy;
    for (const PlacementPolicy& policy : Policies()) {
      if (!policy.in_configurations || &policy == first) continue;
      add(absl::StrCat("memory.placement_policy=", policy.name));
    }
  }
  return others;
}

}  // namespace castor::cli
