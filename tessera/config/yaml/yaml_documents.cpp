#include "tessera/config/yaml/yaml_documents.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

namespace tessera {
namespace {

// Remembers where the document at hand begins, and nothing else.
class DocumentStart : public YAML::EventHandler {
 public:
  const YAML::Mark& mark() const { return mark_; }

  void OnDocumentStart(const YAML::Mark& mark) override { mark_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  YAML::Mark mark_;
};

}  // namespace

int count_documents(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  DocumentStart start;
  int count = 0;
  int last = -1;
  // At a sign that no document takes the library sees one empty document after another, all at the
  // same place. The first document may end before such a sign: three looks tell.
  for (int look = 0; look < 3 && parser.HandleNextDocument(start); ++look) {
    if (start.mark().pos == last) {
      throw YAML::ParserException(start.mark(), "nothing of YAML begins there");
    }
    last = start.mark().pos;
    if (count < 2) ++count;
  }
  return count;
}

}  // namespace tessera
