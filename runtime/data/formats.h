// The rows of the table of formats, each defined in the format's file. Included by the files of the formats
// and by data_format.cc.
#ifndef TETHYS_RUNTIME_DATA_FORMATS_H_
#define TETHYS_RUNTIME_DATA_FORMATS_H_

#include "runtime/data/data_format.h"

namespace tethys {

extern const DataFormat kCifarFormat;
extern const DataFormat kCsvFormat;
extern const DataFormat kIdxFormat;
extern const DataFormat kImageFolderFormat;
extern const DataFormat kNpyFormat;
extern const DataFormat kSyntheticFormat;
extern const DataFormat kTfrecordFormat;

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_FORMATS_H_
