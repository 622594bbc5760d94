from __future__ import annotations

from parcels import Parcel

#: Texts that the small model reads correctly, with the expected parcels.
TEXTS = {
    "Tracking number: AB123456\nWeight: 2.5 kg": Parcel(number="AB123456", weight=2.5),
    "Your order has been shipped. Tracking number: CD987654. Weight: 12 kg.": Parcel(number="CD987654", weight=12),
    "Hello, my 3 kg parcel XY000111 has not arrived.": Parcel(number="XY000111", weight=3),
}
#: A text that the small model misreads; it answers PZ123456.
MISREAD = "Parcel AB123456 of 2.5 kg is on its way."
