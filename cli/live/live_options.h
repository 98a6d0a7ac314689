// The options of the command line that say who follows a run.
#ifndef CASTOR_CLI_LIVE_LIVE_OPTIONS_H_
#define CASTOR_CLI_LIVE_LIVE_OPTIONS_H_

#include <string>

namespace castor::cli {

struct LiveOptions {
  std::string dashboard;    // a port; "": no dashboard
  std::string tensorboard;  // a directory; "": no file

  bool any() const { return !dashboard.empty() || !tensorboard.empty(); }
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_LIVE_LIVE_OPTIONS_H_
