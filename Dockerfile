# Castor on Debian 13, for those whose machine runs something else:
#   docker build -t castor . && docker run -it castor
# builds it, trains the small GPT-2 and passes the tests. (tools/check_release.sh
# runs the same lines without Docker.)
FROM debian:13
WORKDIR /castor
COPY . .
RUN ./run.sh
RUN ./test.sh --quick
