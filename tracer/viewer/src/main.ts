// Title: Castor trace
//
// The trace viewer.

const data = document.getElementById('castor-data')?.textContent ?? '';
document.body.append(`${data.length} bytes of data`);
