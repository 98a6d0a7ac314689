#include "client/client_programs.h"

#include <algorithm>

namespace castor {
namespace {

const std::vector<int64_t>& FirstExtents(const ClientProgram& program) {
  return program.script.uses().front().extents;
}

bool Covers(const ClientProgram& program, const ParameterUse& first) {
  return program.script.uses().front().Covers(first);
}

// Returns true if none of `extents` is more than `most` times as large as that
// of `first`.
bool IsNear(const std::vector<int64_t>& extents,
            const std::vector<int64_t>& first, int64_t most) {
  return std::equal(extents.begin(), extents.end(), first.begin(), first.end(),
                    [&](int64_t a, int64_t b) { return a <= most * b; });
}

}  // namespace

ClientProgram* ClientPrograms::Expected(const Key& key,
                                        const ParameterUse& first) {
  const auto found = programs_.find(key);
  if (found == programs_.end()) return nullptr;
  const auto next = after_.find(previous_);
  ClientProgram* same = nullptr;
  ClientProgram* covering = nullptr;
  for (const auto& program : found->second) {
    const std::vector<int64_t>& extents = FirstExtents(*program);
    if (extents == first.extents) {
      same = program.get();
      if (next != after_.end() && program->number == next->second) return same;
    } else if (same == nullptr && Covers(*program, first) &&
               IsNear(extents, first.extents, kMostGrowth) &&
               (covering == nullptr || extents < FirstExtents(*covering))) {
      covering = program.get();
    }
  }
  return same != nullptr ? same : covering;
}

bool ClientPrograms::Forget(const Key& key, const ParameterUse& first) {
  const auto found = programs_.find(key);
  if (found == programs_.end()) return false;
  bool waited = false;
  std::erase_if(found->second, [&](const auto& each) {
    const bool forgotten = Covers(*each, first);
    if (forgotten && replanner_->Forget(*each)) waited = true;
    return forgotten;
  });
  return waited;
}

std::unique_ptr<ClientProgram> ClientPrograms::Take(const Key& key,
                                                    const StepScript& script) {
  auto& programs = programs_[key];
  const auto same =
      std::find_if(programs.begin(), programs.end(),
                   [&](const auto& each) { return each->script.IsAs(script); });
  if (same == programs.end()) return nullptr;
  std::unique_ptr<ClientProgram> program = std::move(*same);
  programs.erase(same);
  return program;
}

bool ClientPrograms::Keep(const Key& key,
                          std::unique_ptr<ClientProgram> program) {
  if (program->number == 0) program->number = ++kept_;
  auto& programs = programs_[key];
  programs.push_back(std::move(program));
  if (programs.size() <= kMost) return false;
  after_.erase(programs.front()->number);
  const bool waited = replanner_->Forget(*programs.front());
  programs.erase(programs.begin());
  return waited;
}

void ClientPrograms::TookStep(int64_t number) {
  if (previous_ != 0) after_[previous_] = number;
  previous_ = number;
}

}  // namespace castor
