// Random models of every family go through Castor's configuration and through
// Hugging Face's, and come out the same.
#include "tests/random_architecture.h"

#include <gtest/gtest.h>

#include "models/families.h"
#include "nlohmann/json.hpp"

namespace castor::testing {
namespace {

TEST(RandomArchitecture, IsReadBackFromBothWaysToWriteIt) {
  for (const models::Family* family : models::Families()) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Random random(seed);
      ModelConfig model;
      model.type = std::string(family->name());
      model.architecture = RandomArchitecture(*family, random);
      const Json own = model.ToJson();
      SCOPED_TRACE(own.dump());
      JsonReport report("own");
      JsonReader reader(own, report);
      ModelConfig again;
      models::Reader().Read(reader, &again);
      reader.RefuseUnknownKeys();
      ASSERT_TRUE(report.status().ok()) << report.status();
      EXPECT_EQ(again, model);
      ModelConfig hf;
      const absl::Status read =
          models::ParsePretrained(models::HfConfigText(model), "hf", &hf);
      ASSERT_TRUE(read.ok()) << read;
      EXPECT_EQ(hf.architecture->ToJson(), model.architecture->ToJson());
    }
  }
}

}  // namespace
}  // namespace castor::testing
