// The slow oracle of the communicator's tests: inputs that every rank can make
// for every other, and the expected results.
#ifndef CASTOR_DEVICE_COMM_TESTING_COMMUNICATOR_ORACLE_H_
#define CASTOR_DEVICE_COMM_TESTING_COMMUNICATOR_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "device/comm/communicator.h"

namespace castor {

using Bytes = std::vector<std::byte>;

Bytes RandomBytes(int64_t bytes, uint32_t seed);

// Returns finite numbers of type `dtype` and of very different sizes, so that a
// sum's bits show its order.
Bytes RandomNumbers(DType dtype, int64_t elements, uint32_t seed);

void Append(const Bytes& part, Bytes* all);

// sum (+)= part, element by element.
void OracleAdd(DType dtype, const Bytes& part, bool assign,
               std::vector<float>* sum);

// Runs `length` collectives of random kinds, sizes and types, the same on all
// ranks, some of them queued before the last is over. Expects the oracle's
// bits, and no byte outside of them changed.
void RunRandomSequence(uint32_t seed, int length, Communicator& comm);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TESTING_COMMUNICATOR_ORACLE_H_
