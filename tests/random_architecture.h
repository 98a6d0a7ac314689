// Small random models of any family in the table, for property tests: made from
// the names of the family's keys, so that a family whose keys have the usual
// names needs nothing here.
#ifndef CASTOR_TESTS_RANDOM_ARCHITECTURE_H_
#define CASTOR_TESTS_RANDOM_ARCHITECTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/family.h"
#include "run/config/model_config.h"
#include "tests/random.h"

namespace castor::testing {

// Stops the program if the family refuses the model: then a key's value here
// does not suit it.
std::shared_ptr<const Architecture> RandomArchitecture(
    const models::Family& family, Random& random);

// Patterns of the names of some of its parameters, of none in half of the
// cases. They leave something to train.
std::vector<std::string> RandomFrozen(const Architecture& architecture,
                                      Random& random);

// Returns the same model but for the value of `key`; `architecture` itself
// where its family has no such key, or refuses the value.
std::shared_ptr<const Architecture> WithKey(
    const std::shared_ptr<const Architecture>& architecture,
    const std::string& key, const Json& value);

}  // namespace castor::testing

#endif  // CASTOR_TESTS_RANDOM_ARCHITECTURE_H_
