//! Names of fields in larger languages of Europe.

use crate::model::reading::ReadingKind;
use crate::source::fields::Field;

/// Names of a field, in lower case, without separators and accents: the best first. A name that
/// means something only in its object is preceded by the name of the object.
fn names(field: Field) -> &'static str {
    match field {
        Field::DeviceId => {
            "deviceid vehicleid deviceuniqueid unitid assetid trackerid terminalid busid truckid \
             carid imei deviceimei vin uniqueid serialnumber serialno serial deviceserial ident \
             clientid device vehicle unit asset tracker veh licenseplate plate registration \
             devicename vehiclename assetname unitname vehicleregistration registrationnumber \
             platenumber plateno machine resource \
             car truck van bus lorry objekt objektname einheit \
             fahrzeugid fahrzeugnummer fahrzeugnr fahrzeug fahrzeugname fzg kennzeichen \
             kfzkennzeichen amtlicheskennzeichen kfz geraet gerat geraeteid gerateid wagen \
             idvehicule vehicule immatriculation plaque boitier balise camion \
             idvehiculo vehiculo matricula placa unidad equipo dispositivo \
             idveicolo veicolo targa automezzo mezzo \
             voertuigid voertuig kenteken apparaat \
             idpojazdu pojazd rejestracja nrrejestracyjny numerrejestracyjny urzadzenie \
             fordonsid fordon regnr registreringsnummer koretoj koeretoej kjoretoy kjoeretoy \
             nummerplade skilt bil veiculo viatura ajoneuvo rekisterinumero laite \
             vozidlo spz rz jarmu rendszam vehicul autovehicul userid id name"
        }
        Field::Time => {
            "time timestamp ts gpstime gpstimestamp fixtime devicetime datetime gpsdatetime \
             timestampms timems timeutc utctime utc eventtime positiontime locationtime sampletime \
             recordedat capturedat measuredat occurredat happenedat reportedat tst epoch when \
             localtime timelocal localtimestamp dateandtime \
             zeitpunkt zeitstempel datumzeit datumuhrzeit datumunduhrzeit gpszeit messzeit \
             ortungszeit zeit uhrzeit erfasstam erfasst horodatage dateheure dateetheure heure \
             fechahora fechayhora hora dataora dataeora ora orario tijdstip tijdstempel datumtijd \
             datumentijd tijd znacznikczasu dataczas dataiczas czas tidpunkt tidsstampel \
             tidsstempel tidspunkt datotid tid datahora dataehora aikaleima aika casovarazitko \
             datumacas cas idopont idobelyeg ido timp datasiora \
             date datum fecha data dato createdat servertime receivedat t"
        }
        Field::Lat => {
            "lat latitude gpslat gpslatitude latdeg latitudedeg positionlat locationlat \
             coordinates1 breitengrad breite geografischebreite geobreite gpsbreite latitud \
             latitudine breedtegraad breedte szerokosc szerokoscgeograficzna latitud breddgrad \
             breddegrad leveysaste leveyspiiri zemepisnasirka sirka foldrajziszelesseg szelesseg \
             xcoordlat y"
        }
        Field::Lon => {
            "lon longitude lng long gpslon gpslng gpslong gpslongitude londeg longitudedeg \
             positionlon positionlng positionlong locationlon locationlng locationlong \
             coordinates0 langengrad laengengrad lange laenge geografischelange \
             geografischelaenge geolange geolaenge gpslange gpslaenge longitud longitudine \
             lengtegraad lengte dlugosc dlugoscgeograficzna langdgrad lengdegrad laengdegrad \
             pituusaste pituuspiiri zemepisnadelka delka foldrajzihosszusag hosszusag x"
        }
        _ => optional_names(field),
    }
}

/// Names of a field that samples need not have, as [`names`].
fn optional_names(field: Field) -> &'static str {
    match field {
        Field::Driver => {
            "driver driverid drivername driveruniqueid fahrer fahrername conducteur chauffeur \
             conductor autista conducente bestuurder kierowca forare forer foerer sjafor condutor \
             motorista kuljettaja ridic sofor vezeto"
        }
        Field::Ignition => {
            "ignition ignitionon isignitionon ignitionstatus ignitionstate ignitiononoff ign \
             ignstatus ignstate engineon enginestatus enginestate engine accstatus acc zundung \
             zuendung zundungsstatus zuendungsstatus zundungan zuendungan motorstatus contact \
             contactmoteur allumage contacto encendido ignicion accensione quadro ontsteking \
             contactslot zaplon stacyjka tandning taending tenning ignicao virta sytytys \
             zapalovani gyujtas motor moteur motore key"
        }
        reading => reading.reading().map_or("", ReadingKind::guesses),
    }
}

/// Names of which a word is enough, as values confirm them.
fn has_words(field: Field) -> bool {
    matches!(field, Field::Time | Field::Lat | Field::Lon)
}

/// The letter without an accent.
fn folded(c: char) -> &'static str {
    match c {
        '\u{e0}'..='\u{e5}' | '\u{101}' | '\u{103}' | '\u{105}' => "a",
        '\u{e6}' => "ae",
        '\u{e7}' | '\u{107}' | '\u{10d}' => "c",
        '\u{10f}' | '\u{111}' => "d",
        '\u{e8}'..='\u{eb}' | '\u{113}' | '\u{117}' | '\u{119}' | '\u{11b}' => "e",
        '\u{ec}'..='\u{ef}' | '\u{12b}' => "i",
        '\u{142}' => "l",
        '\u{f1}' | '\u{144}' | '\u{148}' => "n",
        '\u{f2}'..='\u{f6}' | '\u{f8}' | '\u{151}' => "o",
        '\u{159}' => "r",
        '\u{df}' => "ss",
        '\u{15b}' | '\u{161}' | '\u{219}' | '\u{15f}' => "s",
        '\u{165}' | '\u{21b}' | '\u{163}' => "t",
        '\u{f9}'..='\u{fc}' | '\u{16f}' | '\u{171}' | '\u{16b}' => "u",
        '\u{fd}' | '\u{ff}' => "y",
        '\u{17a}' | '\u{17c}' | '\u{17e}' => "z",
        _ => "",
    }
}

/// A name in lower case, without separators and accents.
pub(super) fn plain(name: &str) -> String {
    let mut plain = String::new();
    for c in name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase) {
        match folded(c) {
            "" => plain.push(c),
            letters => plain.push_str(letters),
        }
    }
    plain
}

/// A name without what is in brackets, such as a unit.
fn without_brackets(name: &str) -> &str {
    name.split(['(', '[', '<']).next().unwrap_or(name)
}

/// The rank of a name among those of a field, 0 for the best, and whether it is so without the name
/// of the object that it is in.
pub(super) fn rank(field: Field, object: &str, name: &str) -> Option<(usize, bool)> {
    let rank = |text: &str| {
        let text = plain(text);
        names(field).split_ascii_whitespace().position(|known| known == text)
    };
    let (own, short) = (rank(name), rank(without_brackets(name)));
    let in_object = (!object.is_empty()).then(|| rank(&format!("{object}{name}"))).flatten();
    let own = [own, short].into_iter().flatten().min();
    if let Some(in_object) = in_object
        && own.is_none_or(|own| in_object < own)
    {
        return Some((in_object, false));
    }
    own.map(|rank| (rank, true)).or_else(|| {
        // After all whole names.
        let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1);
        let ranks = words.filter_map(rank).min();
        ranks.filter(|_| has_words(field)).map(|rank| (rank + 1000, true))
    })
}
