#include "client/client_programs.h"

#include <algorithm>

namespace castor {

ClientProgram* ClientPrograms::Latest(const Key& key) {
  const auto found = programs_.find(key);
  return found == programs_.end() || found->second.empty()
             ? nullptr
             : found->second.back().get();
}

void ClientPrograms::TakePlaceOfSame(const Key& key, ClientProgram* program) {
  auto& programs = programs_[key];
  const auto same = std::find_if(
      programs.begin(), programs.end(),
      [&](const auto& each) { return each->script.IsAs(program->script); });
  if (same == programs.end()) return;
  program->script.RaisePeaks((*same)->script);
  programs.erase(same);
}

void ClientPrograms::Keep(const Key& key,
                          std::unique_ptr<ClientProgram> program) {
  auto& programs = programs_[key];
  programs.push_back(std::move(program));
  if (programs.size() > kMost) programs.erase(programs.begin());
}

}  // namespace castor
