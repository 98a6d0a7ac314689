// The rotary position embeddings that transformers makes
// (tests/fixtures/rope/transformers.json, which its script describes).
#ifndef CASTOR_MODELS_ROPE_ROPE_FIXTURE_FOR_TEST_H_
#define CASTOR_MODELS_ROPE_ROPE_FIXTURE_FOR_TEST_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/json_reader.h"
#include "models/rope/rope.h"
#include "nlohmann/json.hpp"

namespace castor::models {

struct RopeCase {
  std::string name;
  Json config;  // as config.json has it
  RopeModel model;
  Json lengths, applied;

  // Has Castor read the keys.
  absl::Status Read(Rope* rope) const {
    JsonReport report(name);
    JsonReader reader(config, report);
    rope->Read(reader, model);
    return report.status();
  }
};

inline std::vector<RopeCase> RopeCases() {
  std::ifstream in("tests/fixtures/rope/transformers.json");
  std::vector<RopeCase> cases;
  for (const Json& json : Json::parse(in)) {
    const Json& config = json["config"];
    cases.push_back({.name = json["name"],
                     .config = config,
                     .model = {.head_size = config["head_dim"],
                               .positions = config["max_position_embeddings"],
                               .partial = json["partial"]},
                     .lengths = json["lengths"],
                     .applied = json["applied"]});
  }
  return cases;
}

}  // namespace castor::models

#endif  // CASTOR_MODELS_ROPE_ROPE_FIXTURE_FOR_TEST_H_
