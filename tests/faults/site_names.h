// Names a site in messages, by the functions that lead to it.
#ifndef CASTOR_TESTS_FAULTS_SITE_NAMES_H_
#define CASTOR_TESTS_FAULTS_SITE_NAMES_H_

#include <string>

#include "tests/faults/watched_run.h"

namespace castor::faults {

// "write of .../step-4.tmp in castor::AtomicFile::Append < ...": names as the
// program's symbol table (nm) has them, the numbers of addresses where there
// is none.
std::string DescribeSite(const SiteRecord& site);

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_SITE_NAMES_H_
