#include "client/client_programs.h"

#include <algorithm>

namespace castor {

ClientProgram* ClientPrograms::Expected(const Key& key) {
  const auto found = programs_.find(key);
  if (found == programs_.end() || found->second.empty()) return nullptr;
  const auto& programs = found->second;
  if (const auto next = after_.find(previous_); next != after_.end()) {
    for (const auto& program : programs) {
      if (program->number == next->second) return program.get();
    }
  }
  return programs.back().get();
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

void ClientPrograms::Keep(const Key& key,
                          std::unique_ptr<ClientProgram> program) {
  if (program->number == 0) program->number = ++kept_;
  auto& programs = programs_[key];
  programs.push_back(std::move(program));
  if (programs.size() <= kMost) return;
  after_.erase(programs.front()->number);
  programs.erase(programs.begin());
}

void ClientPrograms::TookStep(int64_t number) {
  if (previous_ != 0) after_[previous_] = number;
  previous_ = number;
}

}  // namespace castor
